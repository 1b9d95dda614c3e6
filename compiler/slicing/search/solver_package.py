"""Solver package: tells whether HiGHS can be imported, and what to do where it cannot."""

from __future__ import annotations

import importlib


def why_no_solver() -> str:
    """Why the greedy search has to do, with the remedy; "" where the solver can be imported."""
    try:
        importlib.import_module("highspy")
    except ImportError as error:
        return (
            f"the search was greedy, as highspy cannot be imported ({error}): the solver may find "
            "faster and smaller plans. Install it with: pip install 'rankmesh[slice]'"
        )
    return ""
