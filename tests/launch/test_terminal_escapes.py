"""Terminal escapes in the names of files, and in the names that files hold: shown, never sent to
the terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import model
from primitives import Writer
from processes import rankmesh

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A model that runs, whose own name and all whose names would steer a terminal."""
    content = model(
        [helper.make_node("Neg", [f"x{EVIL}"], [f"y{EVIL}"])], {f"x{EVIL}": [4]}, {f"y{EVIL}": [4]}
    )
    content.producer_name = EVIL
    path = tmp_path / f"m{EVIL}.onnx"
    path.write_bytes(content.SerializeToString())
    return path


def harmless(done: subprocess.CompletedProcess[str], *phrases: str) -> None:
    """Nothing that steers was written, and what was to be seen can be."""
    text = done.stdout + done.stderr
    assert not [char for char in EVIL if char in text and not char.isprintable()], text.encode()
    for phrase in phrases:
        assert phrase in text


def test_inspect(evil: Path) -> None:
    harmless(
        rankmesh("inspect", evil), f"input: x{SHOWN} float32[4]", f"m{SHOWN}.onnx: ONNX, {SHOWN}"
    )
    harmless(rankmesh("inspect", evil, "--json"))


def test_inspect_of_what_is_not_supported(tmp_path: Path) -> None:
    writer = Writer()
    key = writer.node(f"Strange{EVIL}", [np.ones(4, np.float32)], np.ones(4, np.float32))
    path = writer.save(tmp_path / "m.mindir", key, np.ones(4, np.float32))
    harmless(rankmesh("inspect", path), f"UNSUPPORTED: Strange{SHOWN}")
    harmless(rankmesh("run", path, "--device", "cpu"), f"Strange{SHOWN}")


def test_what_a_run_prints(evil: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", in_0=np.ones(4, np.float32), out_0=np.full(4, -1, np.float32))
    done = rankmesh(
        "run",
        evil,
        "--device",
        "cpu",
        "--expect",
        tmp_path / "x.npz",
        "--inputs",
        tmp_path / "x.npz",
        COLUMNS="400",
    )
    harmless(done, f"tensor's name is:y{SHOWN} data size", f"m{SHOWN}.onnx)", "OK: 1 output")
    wrong = tmp_path / f"{EVIL}.npz"
    np.savez(wrong, out_0=np.zeros(4, np.float32))
    harmless(rankmesh("run", evil, "--device", "cpu", "--expect", wrong), "FAILED", f"y{SHOWN}: ")
    np.savez(wrong, in_0=np.zeros(5, np.float32))
    harmless(rankmesh("run", evil, "--device", "cpu", "--inputs", wrong), f"x{SHOWN}")


def test_the_cache_lists_models(evil: Path, tmp_path: Path) -> None:
    cache = {"RANKMESH_CACHE": str(tmp_path / "cache"), "COLUMNS": "400"}
    assert rankmesh("run", evil, "--device", "cpu", **cache).returncode == 0
    harmless(rankmesh("cache", "list", **cache), f"m{SHOWN}.onnx")


def test_errors_and_logs_of_a_users_own_script(evil: Path, tmp_path: Path) -> None:
    program = """
import logging, sys, rankmesh
model = rankmesh.Model()
logging.getLogger("rankmesh").warning("%s has a word", sys.argv[1])
model.build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR)
model.get_input_by_tensor_name("z")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(evil)], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 1
    harmless(done, f"m{SHOWN}.onnx has a word", "There is no 'z' among")
    strange = model(
        [helper.make_node(f"Strange{EVIL}", ["x"], [f"y{EVIL}"], name=EVIL)],
        {"x": [4]},
        {f"y{EVIL}": [4]},
    )
    evil.write_bytes(strange.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", program, str(evil)], capture_output=True, text=True, timeout=250
    )
    harmless(done, "onnxruntime refuses the segment", f"Strange{SHOWN}")


def test_a_table_of_ranks(tmp_path: Path) -> None:
    table = tmp_path / f"{EVIL}.json"
    table.write_text('{"version": "1.0", "server_count": "1\\u001b[2J"}')
    done = rankmesh("rank-table", "check", table)
    assert done.returncode == 2
    harmless(done, SHOWN)


def test_a_users_own_colours_stay(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('\\x1b[31mred\\x1b[0m')")
    done = rankmesh("launch", "--ranks", "2", tmp_path / "main.py")
    assert done.returncode == 0 and "\x1b[31mred\x1b[0m" in done.stdout


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """They cannot even be printed."""
    path = os.fsencode(tmp_path) + b"/m\xff.onnx"
    with open(path, "wb") as file:
        file.write(b"no model")
    done = subprocess.run(
        [sys.executable, "-m", "rankmesh", "inspect", path], capture_output=True, timeout=250
    )
    assert rb"m\udcff.onnx: is a text that begins with 'no model'" in done.stderr
