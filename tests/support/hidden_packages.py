"""Packages that processes cannot import, as if they were not installed, ranks and servers too."""

from __future__ import annotations

import os
from pathlib import Path

_SITE = """
import sys
from importlib.machinery import PathFinder

class VisiblePackages(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = VisiblePackages
"""


def hiding(folder: Path, *packages: str) -> dict[str, str]:
    """The variables of processes that cannot import these packages, by a new folder."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SITE.format(hidden=set(packages)))
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{before}" if before else str(folder)}
