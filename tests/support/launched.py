"""Starts `rankmesh launch` with a script of the test's, as a user does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import psutil
from processes import COMMAND, PATIENCE, segments, wait_until

BUILD = """
    import os, signal, sys, time
    import numpy as np
    import rankmesh as mslite
    rank = int(os.environ["RANK"])
    def predict():
        model = mslite.Model()
        model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, mslite.Context())
        return model.predict([np.ones(4, np.float32)])[0].get_data_to_numpy()
"""
"""The start of a script that runs the model of its first argument."""


def script(folder: Path, *parts: str) -> Path:
    """A script of the given parts; each may be indented."""
    path = folder / "main.py"
    path.write_text("\n".join(textwrap.dedent(part) for part in parts))
    return path


class Launched:
    """A `rankmesh launch` that is still going; a context manager that ends it with all its
    ranks."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self.before = segments()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*COMMAND, "launch", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
        )
        self.ranks: list[psutil.Process] = []

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.ranks:
            if process.is_running():
                process.kill()
        self.process.kill()
        self.process.communicate()

    def wait_for_ranks(self, count: int) -> None:
        """Until so many lines with a `pid N` in them have come from the ranks."""
        assert self.process.stdout is not None
        while len(self.ranks) < count:
            found = re.search(r"\bpid (\d+)", self.process.stdout.readline())
            if found:
                self.ranks.append(psutil.Process(int(found.group(1))))

    def stop(self, number: signal.Signals) -> float:
        """Signal the launcher; how many seconds it lived on."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        return time.monotonic() - began

    def end(self) -> tuple[int, str, str]:
        """Exit status, standard output and error; also checks that no process and no segment is
        left.
        """
        out, errors = self.process.communicate(timeout=PATIENCE)
        wait_until(
            lambda: not any(p.is_running() and p.status() != "zombie" for p in self.ranks),
            "the ranks to end",
        )
        assert segments() <= self.before
        return self.process.returncode, out, errors


def of_each_rank(out: str) -> dict[int, list[str]]:
    """The lines of each rank, equal ones folded (those that come within a tenth of a second) or
    not.
    """
    found: dict[int, list[str]] = {}
    for ranks, line in re.findall(r"^\[ranks? ([0-9, -]+)\] (.*)$", out, re.MULTILINE):
        for part in ranks.split(","):
            first, _, last = part.partition("-")
            for rank in range(int(first), int(last or first) + 1):
                found.setdefault(rank, []).append(line)
    return found


def launch(*arguments: object, **environment: str) -> tuple[int, str, str]:
    """Run `rankmesh launch` to its end: exit status, standard output and error."""
    with Launched(*arguments, **environment) as launched:
        return launched.end()
