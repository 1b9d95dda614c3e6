"""`python -m rankmesh`: the command line."""

from __future__ import annotations

import os
import sys

_INSTALLED = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    if sys.path[:1] == [os.getcwd()] != [_INSTALLED]:
        del sys.path[0]  # -m puts it there: a file json.py of the user's is no part of this program
    from .launch.cli import main

    main()
