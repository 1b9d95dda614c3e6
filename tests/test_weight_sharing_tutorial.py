"""The tutorial on sharing weights between processes: its program, by fork as written and by spawn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from primitives import Parameter, Writer
from processes import rankmesh

PROGRAM = Path(__file__).parent / "data" / "documents" / "weight_sharing.py"


def write_model(path: Path) -> Path:
    """A convolution of [1, 8, 168, 128] numbers beside twice a step, as the program's model takes them."""
    random = np.random.default_rng(0)
    sample, step = np.zeros((1, 8, 168, 128), np.float32), np.zeros(1, np.int32)
    writer = Writer()
    x, t = writer.argument(sample), writer.argument(step)
    kernel = Parameter(random.standard_normal((8, 8, 3, 3), np.float32))
    seen = writer.node("Conv2D", [x, kernel], np.zeros((1, 8, 166, 126), np.float32),
                       {"kernel_size": (3, 3), "pad_mode": "valid"})
    twice = writer.node("Add", [t, t], step)
    both = (np.zeros((1, 8, 166, 126), np.float32), step)
    return writer.save(path, writer.node("MakeTuple", [seen, twice], both), both)


def spawning(program: str) -> str:
    """The program for processes that inherit nothing: what they share is handed to them; all draw the same numbers."""
    program = program.replace("np.random.randn", "np.random.RandomState(7).randn")
    program = program.replace("args=(i,)", "args=(i, shared_arr, share_pid, share_handle)")
    program = program.replace("def thread_infer(index):\n", (
        "def thread_infer(index, *shared):\n"
        "    globals().update(zip(('shared_arr', 'share_pid', 'share_handle'), shared))\n"))
    return program.replace('if __name__=="__main__":', (
        'if __name__=="__main__":\n    import multiprocessing\n'
        '    multiprocessing.set_start_method("spawn", force=True)\n'
        '    Process = multiprocessing.Process\n    shared_arr = multiprocessing.Array("i", [0]*PROCESS_NUM)\n'
        '    share_pid = multiprocessing.Array("i", [0]*PROCESS_NUM)\n'
        '    share_handle = multiprocessing.Value(ctypes.c_int64, 0)'))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_the_program_runs_as_written(tmp_path: Path, start: str) -> None:
    model = write_model(tmp_path / "model.mindir")
    text = PROGRAM.read_text().replace("path_to_your_mindir", str(model))
    (tmp_path / "main.py").write_text(text if start == "fork" else spawning(text))
    compat = rankmesh("compat-path").stdout.strip()
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": compat, "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": ""})
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found = re.findall(r"^share  (\d)   (\[array.*?\])(?=\n(?:share|index|\Z))", done.stdout, re.M | re.S)
    assert sorted(index for index, _ in found) == ["0", "1", "2"], done.stdout
    assert len(re.findall(r"^share  \d spend time: [\d.e-]+ s$", done.stdout, re.M)) == 3
    handle = re.search(r"^shareable handle: (\d+)$", done.stdout, re.M)
    assert handle and done.stdout.count(f"sub process sharehandle: {handle[1]}\n") == 2
    if start == "spawn":
        assert len({text for _, text in found}) == 1
