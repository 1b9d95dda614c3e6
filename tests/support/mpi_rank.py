"""A user's script under mpirun: `mpi_rank.py PATTERN [ACTION...]` builds this rank's shard and runs
it twice.

The last rank does the first ACTION: exit-first, raise-first, stop-first (before the ranks meet);
exit, raise, leave, stop, kill, exit-at-once (between the two runs); raise-inside (in its second
run). With `apart` as an ACTION the ranks see as little of each other as if they were on several
hosts.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from rankmesh.comm.job.environment import deadline_from_environment
from rankmesh.comm.job.identity import detect
from rankmesh.comm.job_memory.progress import Stage
from rankmesh.comm.rendezvous.mpi_rendezvous import MpiRendezvous
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program_spec import ProgramSpec


def say(what: str) -> None:
    """One line, in one write, so that the ranks' lines do not mix."""
    os.write(1, f"{what}\n".encode())


def act(action: str) -> None:
    """What goes wrong."""
    say(f"{action} {time.time()}")
    if action.startswith("raise"):
        raise ValueError("this rank has had enough")
    if action.startswith("stop"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "exit-at-once":
        os._exit(0)
    sys.exit(3 if action == "leave" else 0)


def main(pattern: str, actions: Sequence[str]) -> None:
    rank = detect().rank
    if "apart" in actions:
        rank = msgspec.structs.replace(rank, local_rank=0, local_size=1, host=f"host{rank.rank}")
        os.environ["XDG_RUNTIME_DIR"] += f"/{rank.rank}"
        os.mkdir(os.environ["XDG_RUNTIME_DIR"])
    last = rank.rank == rank.world_size - 1
    if last and actions and actions[0].endswith("-first"):
        act(actions[0])
    began = time.perf_counter()
    meeting = MpiRendezvous(rank, deadline_from_environment())
    met = time.perf_counter() - began
    program = open_program(
        ProgramSpec(pattern.replace("{rank}", str(rank.rank)), ExecutorSettings(spin=False)),
        meeting,
    )
    meeting.enter(Stage.RUNNING)
    x = np.full(4, rank.rank + 1, np.float32)
    result: Any = program.predict({"x": x})
    say(
        f"rank {rank.rank}: {result['y'].tolist()} met in {met:.3f} s by {program.collectives.name}"
    )
    if last and actions:
        if actions[0] == "raise-inside":
            program.collectives.run = lambda *_: act("raise-inside")  # type: ignore[method-assign]
        elif actions[0] != "apart":
            act(actions[0])
    program.predict({"x": x})
    program.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
