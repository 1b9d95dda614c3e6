"""`python -m rankmesh`: the command line."""

from __future__ import annotations

import os
import sys

_INSTALLED = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    if sys.path[:1] == [os.getcwd()] != [_INSTALLED]:
        # `-m` puts the current folder there, whose json.py, say, must not be imported.
        del sys.path[0]
    from .launch.entry import main

    main()
