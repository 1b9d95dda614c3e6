"""The end of an orchestrator that has accepted requests: they are answered, whatever their ranks do
meanwhile.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from moody import expected, inputs, moody, paused, strike, wait_running
from processes import PATIENCE, wait_until

from rankmesh import Draining, Orchestrator


def test_a_drain_waits_for_all_requests_also_through_a_restart(tmp_path: Path) -> None:
    drained = []
    with Orchestrator(moody(tmp_path)) as orchestrator:
        with paused(orchestrator, 0):
            futures = [orchestrator.submit(inputs(start=number)) for number in range(4)]
            wait_running(orchestrator)
            assert not orchestrator.drain(timeout=0.01)
            assert orchestrator.status().state == "draining"
            with pytest.raises(Draining, match="drains: it takes no more requests"):
                orchestrator.submit(inputs())
            waits = threading.Thread(target=lambda: drained.append(orchestrator.drain()))
            waits.start()
            strike(orchestrator, 0)
        waits.join(PATIENCE)
        assert drained == [True] and all(future.done() for future in futures)
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], expected(inputs(start=number), 1))


def test_a_drain_closes_all_models_before_it_waits_for_one(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    path = moody(tmp_path)
    file.write_text(
        f"models:\n  - path: {path}\n    name: slow\n  - path: {path}\n    name: idle\n"
    )
    with Orchestrator(config=str(file)) as orchestrator:
        with paused(orchestrator, 0):
            future = orchestrator.submit(inputs(), model="slow")
            waits = threading.Thread(target=orchestrator.drain)
            waits.start()
            wait_until(lambda: orchestrator.status().state == "draining", "the drain to begin")
            with pytest.raises(Draining, match="drains: it takes no more requests"):
                wait_until(
                    lambda: not orchestrator.submit(inputs(), model="idle"),
                    "the other model to refuse",
                )
        waits.join(PATIENCE)
        assert not waits.is_alive() and future.done()


PROGRAM = """
import os, sys, time
import numpy as np
import rankmesh
orchestrator = rankmesh.Orchestrator(sys.argv[1])
x, shape = np.ones(4, np.float32), np.array([4])
for number in range(3):
    future = orchestrator.submit({"x": x, "rounds": np.array(100_000), "shape": shape})
    future.add_done_callback(lambda future: os.write(1, b"%d\\n" % future.result()["y"].sum()))
os.write(1, b"asked\\n")
while True:  # a signal that comes just before a sleep is handled after it
    time.sleep(0.1)
"""


def test_a_program_that_is_sent_term_answers_what_it_has_accepted_and_then_ends(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, moody(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == "asked\n"
        ranks = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(signal.SIGTERM)
        assert program.stdout.read().split() == ["8", "8", "8"]
        assert program.wait(PATIENCE) == -signal.SIGTERM
    wait_until(lambda: not any(one.is_running() for one in ranks), "the ranks to end")


FORKING = """
import os, signal, sys, time
import numpy as np
import rankmesh
orchestrator = rankmesh.Orchestrator(sys.argv[1])
x, shape = np.ones(4, np.float32), np.array([4])
future = orchestrator.submit({"x": x, "rounds": np.array(100_000), "shape": shape})
says, hears = os.pipe()
child = os.fork()
if child == 0:
    os.write(hears, b"here")
    while True:
        time.sleep(0.1)
os.read(says, 4)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *future.result()["y"])
"""


def test_term_ends_a_forked_child_and_drains_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, moody(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(-signal.SIGTERM), "2.0", "2.0", "2.0", "2.0"]
