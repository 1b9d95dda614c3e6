"""What shows on the terminal while ranks load for long, with real ranks and a real
pseudo-terminal."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

from terminal import OnTerminal

JOB = textwrap.dedent("""
    import sys
    from rankmesh.comm.job.rank import Rank
    from rankmesh.comm.processes.loading_lines import Loading
    from rankmesh.comm.processes.rank_process import Command
    from rankmesh.launch.supervision.supervised_job import SupervisedJob

    rank = '''
    import os, sys, time
    from rankmesh.comm.job_memory.arena import Arena
    from rankmesh.comm.job.environment import inherited_fds
    from rankmesh.comm.job_memory.progress import Progress, Stage
    number = int(sys.argv[1])
    progress = Progress(Arena.attach(inherited_fds(os.environ)[1], number), number)
    progress.stage = Stage.READING
    time.sleep(float(sys.argv[2]))
    progress.stage = Stage.BUILDING if number else Stage.CHECKING
    print("a line of rank", number, file=sys.stderr, flush=True)
    time.sleep(float(sys.argv[2]) / 2)
    progress.stage = Stage.READY
    time.sleep(0.3)
    '''.replace("\\n    ", "\\n")
    log = lambda number, stream, line: print(line, file=sys.stderr)
    commands = [Command((sys.executable, "-c", rank, str(number), sys.argv[1])) for number in range(2)]
    supervisor = SupervisedJob([Rank(r, 2, r, 2, "testhost", r) for r in range(2)], commands, 60, log)
    with supervisor, Loading(supervisor.stages) as loading:
        supervisor.run(loading)
    assert ("rich" in sys.modules) == (sys.argv[2] == "shown")
""")  # noqa: E501


def on_terminal(seconds: float, *arguments: str) -> str:
    """All that the job writes to a terminal when each rank reads for `seconds`, but for colours."""
    return OnTerminal([sys.executable, "-P", "-c", JOB, str(seconds), *arguments]).written()[1]


def test_long_stages_show_per_rank_and_vanish() -> None:
    written = on_terminal(3.6, "shown")
    assert re.search("rank 0: reading and lowering the model, [23] s", written)
    assert re.search("rank 1: preparing the model, [0-9] s", written)
    assert "rank 0: waiting for the other ranks" in written
    assert "a line of rank 0" in written
    left = written.rpartition("\x1b[2K")[2]  # what comes after the last erased line
    assert "model" not in left and "\x1b[?25h" in written, left


def test_short_stages_show_nothing() -> None:
    lines = [line for line in on_terminal(0.3, "hidden").splitlines() if line]
    assert sorted(lines) == ["a line of rank 0", "a line of rank 1"]


def test_nothing_shows_where_there_is_no_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", JOB, "2.7", "hidden"],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert sorted(done.stderr.splitlines()) == ["a line of rank 0", "a line of rank 1"]
