"""`rankmesh launch` when ranks fail, leave, or stop, and when it is stopped itself."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from launched import BUILD, Launched, launch, script
from processes import COMMAND, PATIENCE, wait_until
from shards import summing, with_a_busy_rank

AT_ONCE = 40.0
"""A second on a machine of its own (0.5 there), and what a busy one may take: far less than what
the ranks sleep.
"""

SOON = 6
"""Seconds that ranks wait for each other where a test wants this to pass; enough for all to be
there before.
"""

WAITING = """
    import os, signal, time
    print("pid", os.getpid(), flush=True)
    time.sleep(60)
"""


def fail_after_the_others_are_there(
    tmp_path: Path, failure: str, others: str = "time.sleep(60)"
) -> Path:
    """A script: rank 1 fails once the file `go` is there, the others do something else."""
    return script(
        tmp_path,
        f"""
        import os, signal, sys, time
        rank = int(os.environ["RANK"])
        print("pid", os.getpid(), flush=True)
        if rank != 1:
            {others}
        while not os.path.exists({str(tmp_path / "go")!r}):
            time.sleep(0.01)
        print("about to fail")
        {failure}
    """,
    )


@pytest.mark.parametrize(
    "failure, status, cause",
    [
        ("sys.exit(7)", 7, "exited with status 7"),
        ("raise ValueError('enough')", 1, "exited with status 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
        (
            "os.kill(os.getpid(), signal.SIGBUS)",
            135,
            "was killed by SIGBUS (a model file cut short while it was open?)",
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "was killed by SIGSEGV"),
        ("os.abort()", 134, "was killed by SIGABRT"),
    ],
)
def test_failing_rank_ends_all_and_is_told_last(
    tmp_path: Path, failure: str, status: int, cause: str
) -> None:
    path = fail_after_the_others_are_there(tmp_path, failure)
    with Launched("--ranks", 3, path) as launched:
        launched.wait_for_ranks(3)
        (tmp_path / "go").touch()
        began = time.monotonic()
        code, _, errors = launched.end()
    assert time.monotonic() - began < AT_ONCE
    assert code == status
    said = errors[errors.index("rankmesh: ") :]
    assert "out of memory" not in said  # as the kernel has counted no such kill
    assert said.startswith("rankmesh: rank 1 of 3 on ") and cause in said.splitlines()[0]
    assert "Last lines of rank 1:" in said and "about to fail" in said
    assert ("ValueError: enough" in said) == ("ValueError" in failure)


def test_ranks_that_ignore_term_are_killed_in_time(tmp_path: Path) -> None:
    others = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('pid', os.getpid(), "
        "flush=True); time.sleep(60)"
    )
    with Launched(
        "--ranks", 2, fail_after_the_others_are_there(tmp_path, "sys.exit(3)", others)
    ) as launched:
        launched.wait_for_ranks(3)  # one of them says it twice
        (tmp_path / "go").touch()
        began = time.monotonic()
        assert launched.end()[0] == 3
    assert time.monotonic() - began < AT_ONCE


def test_what_ranks_have_started_ends_with_them(tmp_path: Path) -> None:
    others = (
        "import subprocess; child = subprocess.Popen(['sleep', '60']); print('pid', child.pid, "
        "flush=True); "
        "child.wait()"
    )
    with Launched(
        "--ranks", 2, fail_after_the_others_are_there(tmp_path, "sys.exit(3)", others)
    ) as launched:
        launched.wait_for_ranks(3)
        (tmp_path / "go").touch()
        assert launched.end()[0] == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_all(tmp_path: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(
            f"{number.name} is ignored here, as under nohup, and so it is by what is started"
        )
    with Launched("--ranks", 2, script(tmp_path, WAITING)) as launched:
        launched.wait_for_ranks(2)
        assert launched.stop(number) < AT_ONCE
        status, _, errors = launched.end()
    assert status == 128 + number
    assert errors == f"rankmesh: stopped by {number.name}; all ranks were ended\n"


def test_ranks_and_what_they_have_started_die_with_a_killed_launcher(tmp_path: Path) -> None:
    with Launched(
        "--ranks",
        2,
        script(
            tmp_path,
            """
        import os, subprocess, time
        print("pid", subprocess.Popen(["sleep", "60"]).pid, flush=True)
    """,
            WAITING,
        ),
    ) as launched:
        launched.wait_for_ranks(4)
        launched.stop(signal.SIGKILL)
        launched.end()


def test_what_ranks_leave_running_in_the_end_is_left_alone(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import subprocess
        print("pid", subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
    """,  # noqa: E501
    )
    with Launched("--ranks", 1, path) as launched:
        launched.wait_for_ranks(1)
        assert launched.process.wait(PATIENCE) == 0
        assert launched.ranks[0].status() != "zombie"


def test_under_nohup_a_hangup_changes_nothing(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, signal, time
        if os.environ["RANK"] == "0":
            os.kill(os.getppid(), signal.SIGHUP)
        time.sleep(0.2)
        print("done")
    """,
    )
    done = subprocess.run(
        ["nohup", *COMMAND, "launch", "--ranks", "2", str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) in (
        ["[ranks 0-1] done"],
        ["[rank 0] done", "[rank 1] done"],
    )


def test_rank_that_writes_without_end_can_be_stopped(tmp_path: Path) -> None:
    with Launched(
        "--ranks",
        2,
        script(
            tmp_path,
            WAITING.replace(
                "time.sleep(60)",
                """
        while True:
            print(("y" * 99 + "\\n") * 100)
        """.strip(),
            ),
        ),
    ) as launched:
        launched.wait_for_ranks(2)
        launched.process.send_signal(signal.SIGINT)
        status, _, _ = launched.end()  # within its deadline
    assert status == 130


def test_output_that_nobody_reads_any_more_ends_all(tmp_path: Path) -> None:
    path = script(
        tmp_path, "for i in range(100_000): print(i, flush=True)", "import time", "time.sleep(60)"
    )
    command = f"{' '.join(COMMAND)} launch --ranks 2 {path} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "[rank 0] 0\n" or done.stdout in ("[rank 1] 0\n", "[ranks 0-1] 0\n")
    assert "Traceback" not in done.stderr


def test_rank_that_is_gone_when_the_others_come_is_named(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        BUILD,
        f"""
        if rank == 1:
            print("I have nothing to do")
            sys.exit(0)
        while not os.path.exists({str(tmp_path / "go")!r}):
            time.sleep(0.01)
        predict()
    """,
    )
    with Launched("--ranks", 3, "--log-dir", tmp_path, path, summing(tmp_path, 3)) as launched:
        log = tmp_path / "rank_1.log"
        wait_until(lambda: log.exists() and log.read_text(), "rank 1 to speak")
        (tmp_path / "go").touch()
        status, _, errors = launched.end()
    assert status == 4
    assert "rank 1 of 3" in errors and "exited with status 0 while others wait for it" in errors


def test_rank_that_leaves_others_in_a_collective_is_named(tmp_path: Path) -> None:
    path = script(tmp_path, BUILD, "predict()", "if rank == 1: sys.exit(0)", "predict()")
    status, _, errors = launch("--ranks", 2, path, summing(tmp_path))
    assert status == 4
    assert (
        "rankmesh: rank 1 of 2" in errors
        and "exited with status 0 while others wait for it" in errors
    )


SECOND_PREDICT = (
    BUILD
    + """
    model = mslite.Model()
    model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, mslite.Context())
    x = [np.ones(4, np.float32)]
    model.predict(x)
    print("predicted once")
    if rank == 1:
        {}
    model.predict(x)
"""
)


@pytest.mark.parametrize(
    "action, status, said",
    [
        ("sys.exit(0)", 4, "for rank 1, whose process has ended"),
        ("sys.exit(5)", 5, "exited with status 5 while it is READY"),
        ("raise ValueError('enough')", 1, "ValueError: enough"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
        ("model.predict([])", 3, "InputError"),
    ],
)
def test_rank_that_does_not_enter_a_collective(
    tmp_path: Path, action: str, status: int, said: str
) -> None:
    code, _, errors = launch(
        "--ranks", 2, script(tmp_path, SECOND_PREDICT.format(action)), summing(tmp_path)
    )
    told = errors[errors.rindex("rankmesh: ") :]
    assert said in told and "Last lines of rank 1:" in told and "predicted once" in told
    assert code == (1 if status == 3 else status)  # an exception's status is Python's own


def test_stopped_rank_is_named_after_the_deadline(tmp_path: Path) -> None:
    path = script(tmp_path, SECOND_PREDICT.format("os.kill(os.getpid(), signal.SIGSTOP)"))
    began = time.monotonic()
    status, _, errors = launch(
        "--ranks", 2, path, summing(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}"
    )
    assert time.monotonic() - began < SOON + PATIENCE
    told = errors[errors.rindex("rankmesh: ") :]
    assert (
        status == 4
        and "rank 1 never entered it (it is READY" in told
        and "Last lines of rank 1:" in told
    )


def test_rank_stopped_before_the_ranks_meet_is_named_after_the_deadline(tmp_path: Path) -> None:
    path = script(
        tmp_path, BUILD, "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)", "predict()"
    )
    status, _, errors = launch(
        "--ranks", 2, path, summing(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}"
    )
    assert status == 4 and f"rank 1 did not arrive within {SOON} s of the first rank" in errors


def test_killed_rank_ends_a_rank_that_computes(tmp_path: Path) -> None:
    path = script(tmp_path, BUILD, "print('pid', os.getpid(), flush=True)", "predict()")
    with Launched("--ranks", 2, path, with_a_busy_rank(tmp_path)) as launched:
        launched.wait_for_ranks(2)
        launched.ranks[0].kill()
        began = time.monotonic()
        status, _, errors = launched.end()
    assert time.monotonic() - began < AT_ONCE
    assert status == 137 and "was killed by SIGKILL" in errors
