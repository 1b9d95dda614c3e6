"""The picture kill.svg: what a program's log shows when a rank of its orchestrator is killed, from
a real run.

python docs/kill_picture.py [docs/kill.svg]
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from datetime import datetime
from html import escape
from pathlib import Path

import numpy as np

import rankmesh

SAMPLE = Path(__file__).resolve().parents[1] / "launch" / "sample"
CLIENTS, STEP, STEPS_AFTER = 4, 1.0, 3
WIDTH, LINE, MARGIN, COLUMNS = 860, 20, 16, 98
COLOURS = {"$": "#7ee787", "!": "#ffa657", " ": "#c9d1d9"}
"""Of what a person types, of warnings, of all else."""


class Screen(logging.Handler):
    """The lines of the picture, as they come: a mark (a key of COLOURS) and text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of Rankmesh's log."""
        self.say(
            f"{record.levelname} {record.getMessage()}",
            "!" if record.levelno >= logging.WARNING else " ",
        )

    def say(self, text: str, mark: str = " ") -> None:
        """Add what a program prints, with the time, or what is typed."""
        stamp = "" if mark == "$" else f"{datetime.now():%H:%M:%S.%f}"[:-3] + " "
        first, *more = textwrap.wrap(text, COLUMNS - len(stamp))
        self.lines.append((mark, f"{stamp or '$ '}{first}"))
        self.lines += [(mark, " " * len(stamp or "$ ") + line) for line in more]


class Clients:
    """Threads that ask without a pause and compare every answer with the reference."""

    def __init__(self, orchestrator: rankmesh.Orchestrator) -> None:
        self._orchestrator = orchestrator
        arrays = np.load(SAMPLE / "llama.npz")
        self._inputs = [arrays[name] for name in arrays.files if name.startswith("in_")]
        self._reference = arrays["out_0"]
        self._over = threading.Event()
        self._seconds: list[float] = []
        self.wrong = self.failed = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._over.is_set():
            start = time.perf_counter()
            try:
                answer = next(iter(self._orchestrator.predict(*self._inputs).values()))
                self.wrong += not np.allclose(answer, self._reference, rtol=1e-4, atol=1e-5)
            except rankmesh.RankmeshError:
                self.failed += 1
            self._seconds.append(time.perf_counter() - start)

    def stop(self) -> None:
        """Let every thread have its last answer."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def __str__(self) -> str:
        return (
            f"{len(self._seconds):,} requests answered, {self.failed} failed, {self.wrong} wrong; "
            f"slowest {max(self._seconds) * 1e3:.0f} ms"
        )


def pids(orchestrator: rankmesh.Orchestrator) -> dict[int, list[int | None]]:
    """The processes of each replica, in rank order."""
    found: dict[int, list[int | None]] = {}
    for rank in orchestrator.status().ranks:
        found.setdefault(rank.replica, []).append(rank.pid)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll, for a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the orchestrator is not ready again after a minute")
        time.sleep(0.001)


def record(screen: Screen) -> None:
    """Serve, kill a rank, serve on."""
    screen.say(
        "python docs/kill_picture.py     # 4 clients ask 2 replicas of a model that is sliced "
        "for 2 ranks",
        "$",
    )
    with rankmesh.Orchestrator(
        str(SAMPLE / "llama_rank{rank}.mindir"), ranks=2, replicas=2
    ) as orchestrator:
        before = pids(orchestrator)
        screen.say(
            "ready: " + ", ".join(f"replica {r} is processes {p}" for r, p in before.items())
        )
        clients = Clients(orchestrator)
        time.sleep(STEP)
        screen.say(str(clients))
        victim = before[0][1]
        assert victim
        screen.say(f"kill -9 {victim}", "$")
        os.kill(victim, signal.SIGKILL)
        wait_until(
            lambda: victim not in pids(orchestrator)[0] and None not in pids(orchestrator)[0]
        )
        wait_until(lambda: orchestrator.status().state == "ready")
        screen.say(f"replica 0 answers again: processes {pids(orchestrator)[0]}")
        for _ in range(STEPS_AFTER):
            time.sleep(STEP)
            screen.say(str(clients))
        clients.stop()


def drawn(lines: list[tuple[str, str]]) -> str:
    """A terminal with these lines, as SVG."""
    height = 2 * MARGIN + LINE * (len(lines) + 1)
    texts = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (row + 2) - 6}" fill="{COLOURS[mark]}" '
        'xml:space="preserve">'
        f"{escape(text)}</text>"
        for row, (mark, text) in enumerate(lines)
    ]
    dots = [
        f'<circle cx="{MARGIN + 4 + 18 * n}" cy="{MARGIN}" r="5" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" '
            'font-size="13.5">',
            "<title>A rank is killed with kill -9, and no request fails</title>",
            '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
            *dots,
            *texts,
            "</svg>",
            "",
        ]
    )


def main() -> None:
    """Record a run and draw it."""
    screen = Screen()
    logging.getLogger("rankmesh").addHandler(screen)
    logging.getLogger("rankmesh").setLevel(logging.INFO)
    logging.getLogger("rankmesh").propagate = False
    record(screen)
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("kill.svg"))
    out.write_text(drawn(screen.lines))
    print("\n".join(text for _, text in screen.lines))


if __name__ == "__main__":
    main()
