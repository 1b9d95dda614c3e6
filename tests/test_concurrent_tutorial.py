"""The tutorial of concurrent inference: its program as written, on a small model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mindir_models import built, file_of, saved

from rankmesh.launch.compat_path import compat_path

PROGRAM = Path(__file__).parent / "data" / "documents" / "concurrent_inference.py"
TASKS = 5 * 2  # of all clients


@pytest.mark.parametrize("workers", [3, 1])
def test_the_program_prints_what_the_tutorial_promises(tmp_path: Path, workers: int) -> None:
    """With three workers as it stands, and with one, as it proposes for comparison."""
    (x,), (y,) = saved("mobilenetv2")
    (tmp_path / "model").mkdir()
    shutil.copyfile(file_of("mobilenetv2"), tmp_path / "model" / "mobilenetv2.ms")
    x.tofile(tmp_path / "model" / "input.bin")
    script = tmp_path / "quick_start_server_inference_python.py"
    script.write_text(PROGRAM.read_text().replace("WORKERS_NUM = 3", f"WORKERS_NUM = {workers}"))
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": compat_path(), "CUDA_VISIBLE_DEVICES": ""})
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    described = re.findall(r"tensor name is:(\S+) tensor size is:(\d+) tensor elements num is:(\d+)", text)
    assert Counter(described) == {(described[0][0], str(y.nbytes), str(y.size)): TASKS}
    for phrase in ("parallel id: ", "| task index: ", "| run once time: ", "output data is:"):
        assert text.count(phrase) == TASKS, phrase  # threads print their lines in pieces, between those of others
    expected = built("mobilenetv2").predict([x])[0].get_data_to_numpy().ravel()[:5]
    assert all(text.count(str(value)) == TASKS for value in expected)
    assert re.search(r"^total run time:  \S+  s$", text, re.MULTILINE)
