"""The compatibility folder: on PYTHONPATH, it provides the package `mindspore_lite`."""

from __future__ import annotations

import os


def compat_path() -> str:
    """The absolute path of this folder."""
    return os.path.dirname(os.path.abspath(__file__))


def print_compat_path() -> None:
    """Print the folder that makes `import mindspore_lite` find Rankmesh.

    Use it as PYTHONPATH=$(rankmesh compat-path).
    """
    print(compat_path())
