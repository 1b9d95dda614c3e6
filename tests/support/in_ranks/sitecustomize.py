"""Has every rank of an orchestrator run the program that TEST_IN_RANKS names, beside its own work.

Python imports this at its start where PYTHONPATH has this folder: the product knows nothing of it.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading

_PROGRAM = os.environ.get("TEST_IN_RANKS")

if _PROGRAM and "rankmesh.worker.serving.rank_loop" in sys.orig_argv:
    threading.Thread(
        target=runpy.run_path, args=(_PROGRAM,), kwargs={"run_name": "__main__"}, daemon=True
    ).start()
