"""The command line in a process that is forked from one with its imports; see fork_server.py."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

import numpy  # noqa: F401
import onnx  # noqa: F401
import onnxruntime  # noqa: F401

import rankmesh
import rankmesh.launch.run.report
from rankmesh.launch import cli


def main(arguments: dict[str, Any]) -> None:
    """Run `rankmesh` with these arguments, variables and current folder, up to its exit status."""
    os.environ.clear()
    os.environ.update(arguments["environment"])
    os.chdir(arguments["folder"])
    del sys.path[0]  # the folder of fork_server.py
    sys.argv = [os.path.join(rankmesh.__path__[0], "__main__.py"), *arguments["arguments"]]
    try:
        cli.main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _end_at_once(ended.code)
        raise


def _end_at_once(status: int) -> None:
    """To unload modules would first copy the memory that they share with the parent."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)
