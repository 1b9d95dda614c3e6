"""Where the package lies that answers to `import mindspore_lite`."""

from __future__ import annotations

import os


def compat_path() -> str:
    """The folder to put on PYTHONPATH."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "compat")
