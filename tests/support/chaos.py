"""Clients that ask an orchestrator for everything at once, others that strike its ranks, and what
became of it all.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import psutil
from moody import expected as moody_expected
from moody import inputs as moody_inputs

from rankmesh import Orchestrator, QueueFull, RankmeshError

Act = Callable[[Random, Orchestrator, "Ledger"], None]
"""One thing that an actor does, again and again; it may wait."""

_HELD = 20
BAD = "bad"
TINY = "tiny"
_SIZES = (0, 1, 4, 4, 4, 1000, 50_000, 1_000_000)


class Ledger:
    """What clients have asked and got, by themselves; and the faults of others. Safe for
    threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        """One more."""
        with self._lock:
            self.counts[what] += 1

    def fault(self, what: str) -> None:
        """A rank was struck."""
        with self._lock:
            self.faults[what] += 1

    def complain(self, text: str) -> None:
        """Something that must not be."""
        with self._lock:
            self.unexpected.append(text)

    def settle(self, future: Future[Any], wanted: Any, kind: str = "") -> Any:
        """Wait for one request, count how it ended, and check the answer."""
        try:
            found = future.result(120)["y"]
        except CancelledError:
            self.count("cancelled")
        except RankmeshError as error:
            self.count("failed")
            self._judge(error.with_traceback(None), kind)  # its frames hold arrays, in a cycle
        except TimeoutError:
            self.complain("a request was lost: it has no answer after 120 s")
        else:
            self.count("answered")
            if kind == BAD or not np.array_equal(found, wanted):
                self.complain(f"a wrong answer of shape {found.shape}, expected {wanted.shape}")
            return found
        return None

    def _judge(self, error: RankmeshError, kind: str) -> None:
        name = type(error).__name__
        self.count(name)
        allowed = {BAD: {"RankFailed", "Poisoned"}, TINY: {"DeadlineExceeded", "Poisoned"}}.get(
            kind, {"Poisoned"}
        )
        if name not in allowed or name == "Poisoned" and sum(self.faults.values()) < 2:
            self.complain(f"a request ended with {name}: {error}")


class Client:
    """Asks model `doubler` for rows and `moody` for numbers, of any size, in every way, and holds
    some answers.
    """

    def __init__(self, both: bool = True) -> None:
        """With `both` it asks both models, else `moody` alone."""
        self._both = both
        self._held: deque[tuple[Any, Any]] = deque()

    def __call__(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """One round."""
        burst = rng.choice((1, 1, 1, 2, 10, 40))
        asked = [
            one
            for one in (self._ask(rng, orchestrator, ledger) for _ in range(burst))
            if one is not None
        ]
        for future, wanted, kind in asked:
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.005)
                future.cancel()
            found = ledger.settle(future, wanted, kind)
            if found is not None and found.nbytes < 1 << 20:
                self._hold(found, wanted, ledger)

    def _hold(self, found: Any, wanted: Any, ledger: Ledger) -> None:
        """An answer stays as it is as long as it is held, whatever happens to ranks and other
        requests.
        """
        self._held.append((found, wanted))
        if len(self._held) > _HELD:
            then, expected = self._held.popleft()
            if not np.array_equal(then, expected):
                ledger.complain(f"an answer of shape {then.shape} has changed while it was held")

    def _ask(
        self, rng: Random, orchestrator: Orchestrator, ledger: Ledger
    ) -> tuple[Future[Any], Any, str] | None:
        given, wanted, kind, model = self._request(rng)
        timeout = rng.choice((0.0001, 0.001, 0.01)) if kind == TINY else 110.0
        try:
            future = orchestrator.submit(
                given, model=model, timeout=timeout, priority=rng.choice((0, 0, 5, -5))
            )
        except QueueFull:
            ledger.count("refused")
            return None
        ledger.count("accepted")
        return future, wanted, kind

    def _request(self, rng: Random) -> tuple[dict[str, Any], Any, str, str]:
        size, start = rng.choice(_SIZES), rng.randrange(1000)
        kind = rng.choice(("", "", "", "", TINY))
        if self._both and rng.random() < 0.5:
            x = np.arange(start, start + size // 4 * 4, dtype=np.float32).reshape(-1, 4)
            return {"x": x, "bias": np.ones(1, np.float32)}, x + x + 1, kind, "doubler"
        if rng.random() < 0.01:
            return moody_inputs(size=4, shape=(3,)), None, BAD, "moody"
        given = moody_inputs(2 * rng.randrange(200), size, start=start)
        return given, moody_expected(given, 2), kind, "moody"


def kill(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    """A rank dies, ready or not."""
    _strike(rng, orchestrator, ledger, signal.SIGKILL)


def stop(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    """A rank is stopped and stays so."""
    _strike(rng, orchestrator, ledger, signal.SIGSTOP)


def pause(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    """A rank is stopped for a moment."""
    pid = _strike(rng, orchestrator, ledger, signal.SIGSTOP)
    time.sleep(rng.random() * 0.2)
    if pid is not None and _ours(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def look(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    """Somebody watches."""
    orchestrator.status().to_dict()
    orchestrator.metrics()
    time.sleep(rng.random() * 0.1)


def _strike(
    rng: Random, orchestrator: Orchestrator, ledger: Ledger, number: signal.Signals
) -> int | None:
    """Signal a random rank, unless it has just ended."""
    pid = rng.choice(orchestrator.status().ranks).pid
    if pid is None:
        return None
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with suppress(ProcessLookupError):
        if _ours(pid):
            signal.pidfd_send_signal(handle, number)
            ledger.fault(number.name)
    os.close(handle)
    return pid


def _ours(pid: int) -> bool:
    """Whether a process is below this one. The number of a rank of a lost host may be another
    process's by now.
    """
    with suppress(psutil.NoSuchProcess):
        return os.getpid() in [parent.pid for parent in psutil.Process(pid).parents()]
    return False


def in_turn(seconds: float, acts: Sequence[Act]) -> Act:
    """As `every`, and each of `acts` before any has its second turn."""
    left: list[Act] = []

    def act(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        time.sleep(seconds * (0.5 + rng.random()))
        if not left:
            left.extend(rng.sample(acts, len(acts)))
        left.pop()(rng, orchestrator, ledger)

    return act


def every(seconds: float, acts: Sequence[Act]) -> Act:
    """One of `acts`, each time after a pause of about so long."""

    def act(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        time.sleep(seconds * (0.5 + rng.random()))
        rng.choice(acts)(rng, orchestrator, ledger)

    return act


def let_loose(
    orchestrator: Orchestrator, ledger: Ledger, actors: Sequence[Act], seconds: float, seed: int
) -> None:
    """Run all actors, each in a thread of its own, for so long; what one of them raises is a
    complaint.
    """
    end = time.monotonic() + seconds

    def run(number: int, act: Act) -> None:
        rng = Random(seed * 1000 + number)
        try:
            while time.monotonic() < end:
                act(rng, orchestrator, ledger)
        except Exception as error:
            ledger.complain(f"actor {number} raised {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
