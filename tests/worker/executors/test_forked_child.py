"""A child that was forked from a process which has used a model."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mindir_models import file_of

PROGRAM = """
import atexit, os, sys
import numpy as np
from rankmesh import Context, Model, ModelType
context, model = Context(), Model()
context.cpu.thread_num = int(sys.argv[1])
model.build_from_file(sys.argv[2], ModelType.MINDIR, context)
model.predict([np.ones((4, 16), np.float32)])
if not os.fork():
    atexit.register(print, "ends in order")
    sys.exit(7)
print("status", os.wait()[1] >> 8, flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_it_ends_by_itself_with_its_own_status(threads: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(threads), file_of("mlp")],
        stdout=subprocess.PIPE,
        text=True,
        timeout=250,
    )
    assert (done.returncode, done.stdout) == (0, "ends in order\nstatus 7\n")
