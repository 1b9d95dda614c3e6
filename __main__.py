"""`python -m rankmesh`: the command line."""

from __future__ import annotations

from .launch.cli import main

if __name__ == "__main__":
    main()
