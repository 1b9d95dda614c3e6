"""The tutorial on sharing weights between processes: its program, by fork as written and by
spawn."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mindir_models import built, file_of, saved
from primitives import Parameter, Writer, same
from told_process import PATIENCE
from weights_user import User, tensor

import rankmesh as mslite
from rankmesh.launch.compat import compat_path

PROGRAM = Path(__file__).parents[1] / "data" / "documents" / "weight_sharing.py"


def write_model(path: Path) -> Path:
    """A convolution of [1, 8, 168, 128] numbers beside twice a step, as the program's model takes
    them.
    """
    random = np.random.default_rng(0)
    sample, step = np.zeros((1, 8, 168, 128), np.float32), np.zeros(1, np.int32)
    writer = Writer()
    x, t = writer.argument(sample), writer.argument(step)
    kernel = Parameter(random.standard_normal((8, 8, 3, 3), np.float32))
    seen = writer.node(
        "Conv2D",
        [x, kernel],
        np.zeros((1, 8, 166, 126), np.float32),
        {"kernel_size": (3, 3), "pad_mode": "valid"},
    )
    twice = writer.node("Add", [t, t], step)
    both = (np.zeros((1, 8, 166, 126), np.float32), step)
    return writer.save(path, writer.node("MakeTuple", [seen, twice], both), both)


def spawning(program: str) -> str:
    """The program for processes that inherit nothing: what they share is handed to them; all draw
    the same numbers. They rest while they wait.
    """
    program = program.replace("while True:\n", "while not time.sleep(0.002):\n")
    program = program.replace("np.random.randn", "np.random.RandomState(7).randn")
    program = program.replace("args=(i,)", "args=(i, shared_arr, share_pid, share_handle)")
    program = program.replace(
        "def thread_infer(index):\n",
        (
            "def thread_infer(index, *shared):\n"
            "    globals().update(zip(('shared_arr', 'share_pid', 'share_handle'), shared))\n"
        ),
    )
    return program.replace(
        'if __name__=="__main__":',
        (
            'if __name__=="__main__":\n    import multiprocessing\n'
            '    multiprocessing.set_start_method("spawn", force=True)\n'
            '    Process = multiprocessing.Process\n    shared_arr = multiprocessing.Array("i", '
            "[0]*PROCESS_NUM)\n"
            '    share_pid = multiprocessing.Array("i", [0]*PROCESS_NUM)\n'
            "    share_handle = multiprocessing.Value(ctypes.c_int64, 0)"
        ),
    )


def run(folder: Path, program: str) -> str:
    """What the program prints."""
    model = write_model(folder / "model.mindir")
    (folder / "main.py").write_text(program.replace("path_to_your_mindir", str(model)))
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        env={
            **os.environ,
            "PYTHONPATH": compat_path(),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONUNBUFFERED": "",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def results(text: str) -> dict[str, str]:
    """The arrays that each process printed; all of them also printed how long it took."""
    found = dict(
        re.findall(r"^share  (\d)   (\[array.*?\])(?=\n(?:share|index|\Z))", text, re.M | re.S)
    )
    assert len(re.findall(r"^share  \d spend time: [\d.e-]+ s$", text, re.M)) == len(found) == 3, (
        text
    )
    return found


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the program prints as it stands, with forked processes."""
    return run(tmp_path_factory.mktemp("fork"), PROGRAM.read_text())


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """A process that builds models and does with them what it is told."""
    made = User()
    yield made
    made.close()


def pids(text: str) -> list[str]:
    """The numbers that the users print."""
    return re.findall(r"^pid: (\d+)$", text, re.M)


def handle(text: str) -> str:
    """The number that the owner prints."""
    (found,) = re.findall(r"^shareable handle: (\d+)$", text, re.M)
    return str(found)


def test_row_15_pid_query(printed: str) -> None:
    assert mslite.Model().get_model_info("current_pid") == str(os.getpid())
    assert len(set(pids(printed))) == 2


def test_row_16_the_owner_lists_processes(printed: str) -> None:
    """Falls back: the weights lie in memory of the host, whichever device the context names."""
    (listed,) = re.findall(r"^str of pids: (.*)$", printed, re.M)
    assert listed.split(", ")[0] == "0" and sorted(listed.split(", ")[1:]) == sorted(pids(printed))


def test_row_17_handle(printed: str) -> None:
    assert 0 < int(handle(printed)) < 2**63
    assert f"\nint shareable_handle: {handle(printed)}\n" in printed


def test_row_18_users_take_the_handle(printed: str) -> None:
    assert printed.count(f"\nsub process sharehandle: {handle(printed)}\n") == 2


def test_row_18_users_compute_with_the_owners_weights(user: User) -> None:
    """They are the owner's memory, not a copy of it: what the owner changes there, the user
    computes with.
    """
    (x,), _ = saved("mlp")
    owner = built(
        "mlp", config_dict={"ascend_context": {"shareable_weight_pid_list": f"0, {user.pid}"}}
    )
    shareable_handle = owner.get_model_info("shareable_weight_mem_handle")
    user(
        "build",
        file_of("mlp"),
        {"ascend_context": {"shareable_weight_mem_handle": shareable_handle}},
    )
    before = user("predict", [x])[0]
    owner.update_weights([[tensor("fc1.weight", np.zeros((32, 16), np.float32))]])
    after = user("predict", [x])[0]
    np.testing.assert_array_equal(after, owner.predict([x])[0].get_data_to_numpy())
    assert np.abs(after - before).max() > 0.1


def test_row_19_only_listed_processes_may_attach(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides hear of it; in the words of the tutorial's text, which has its own spelling of the
    configuration.
    """
    made = built("mlp", config_dict={"pids": "0"})
    shared_mem_handle = int(made.get_model_info("shareable_weight_mem_handle"))
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        answer = user("build", file_of("mlp"), {"shared_mem_handle": shared_mem_handle})
    assert f"refuses: process {user.pid} is not on the owner's list" in answer
    deadline = time.monotonic() + PATIENCE  # the owner writes the line after it has answered
    while f"weights refused to process {user.pid}" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_row_20_the_program_as_written(printed: str) -> None:
    assert sorted(results(printed)) == ["0", "1", "2"]
    for line in (
        "index: 2",
        "begin model group",
        "********** begin build model **********",
        "share handle value: ",
    ):
        assert line in printed


@pytest.mark.slow
def test_row_20_the_program_with_spawned_processes(tmp_path: Path) -> None:
    """All processes have the same inputs, and compute the same."""
    assert len(set(results(run(tmp_path, spawning(PROGRAM.read_text()))).values())) == 1


@pytest.mark.parametrize("name", ["dyn_mlp", "mlp"])
def test_row_21_resize(name: str) -> None:
    """Of a model with an open dimension, and of one without, which is built anew."""
    model, ((x,), (reference,)) = built(name), saved(name)
    inputs = model.get_inputs()
    for rows in (2, len(x)):
        model.resize(inputs, [[rows, 16]])
        assert (inputs[0].shape, model.get_outputs()[0].shape) == ([rows, 16], [rows, 10])
        same(model.predict([x[:rows]])[0].get_data_to_numpy(), reference[:rows])
