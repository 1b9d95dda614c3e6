"""Calibration: measures the constants of predicted costs with probes that ranks run.

Ranks that work at once share memory and cores, so that each is slower than one alone. So there are
constants for each number of ranks, and for one rank that has no more cores than it has among them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...comm.errors import RankFailed, UsageError
from ...comm.text import counted
from ...worker.slicing.planning.costs import HostCosts
from ...worker.slicing.planning.host_costs import keep_costs
from . import probes

_TIMEOUT = 120.0
_ROUNDS = 3
_LEAST = 1e-15
"""Seconds: a difference of two times that is less is noise."""

_ROW_ELEMENTS = probes.ROWS * probes.WIDTH
_PIXELS = probes.IMAGE**2 * probes.CHANNELS
"""Elements that a product gives, and a convolution."""


def calibrate(ranks: int, repeat: int) -> tuple[Mapping[int, HostCosts], str]:
    """Measure the constants for `ranks` ranks and for one by `repeat` requests, and keep them.

    Returns them by number of ranks, and the path of the file that has them.
    """
    cores = len(os.sched_getaffinity(0))
    if ranks < 2:
        raise UsageError(f"--ranks {ranks}: expected at least 2: one rank exchanges nothing.")
    if ranks > cores:
        raise UsageError(
            f"--ranks {ranks}: this host has {counted(cores, 'core')}, and ranks that share one "
            "have no times to predict from."
        )
    with tempfile.TemporaryDirectory(prefix="rankmesh-calibrate-") as folder:
        times = _times({ranks: cores, 1: cores // ranks}, repeat, Path(folder))
    found = {count: costs_from(one, count) for count, one in sorted(times.items())}
    return found, keep_costs(found)


def _times(
    cores: Mapping[int, int], repeat: int, folder: Path
) -> Mapping[int, Mapping[str, float]]:
    """The seconds of a request of each probe, by numbers of ranks, which have so many cores.

    They are the least of some rounds, as other programs can only make a probe slower.
    """
    patterns = {
        (ranks, name): probes.write_probe(name, ranks, folder)
        for name in probes.PROBES
        for ranks in cores
        if ranks > 1 or name not in ("small", "large")
    }
    found: dict[int, dict[str, float]] = {ranks: {} for ranks in cores}
    rounds = min(_ROUNDS, repeat)
    for _ in range(rounds):
        for (ranks, name), pattern in patterns.items():
            seconds = _seconds(pattern, cores[ranks], -(-repeat // rounds))
            found[ranks][name] = min(seconds, found[ranks].get(name, math.inf))
    return found


def _seconds(pattern: str, cores: int, repeat: int) -> float:
    """The median latency of a model on the first `cores` cores."""
    some = sorted(os.sched_getaffinity(0))[:cores]
    command = [sys.executable, "-m", "rankmesh", "run", pattern, "--repeat", str(repeat), "--json"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        preexec_fn=lambda: os.sched_setaffinity(0, some),
    )
    if done.returncode:
        raise RankFailed(f"A probe failed with status {done.returncode}: {done.stderr.strip()}")
    return float(json.loads(done.stdout)["latency"]["median_seconds"])


def costs_from(times: Mapping[str, float], ranks: int) -> HostCosts:
    """The constants that explain the times of the probes, in seconds."""
    call = _each(times["calls"] - times["nothing"], probes.CALLS)
    copy = _each(times["copies"] - times["nothing"], probes.COPIES) - call
    byte = max(copy / (3 * 4 * probes.COPIED), _LEAST)
    found = HostCosts(call=call, byte=byte)
    if ranks > 1:
        found = msgspec.structs.replace(found, **_exchange_costs(times, ranks, call, byte))
    products = times["products"] - times["nothing"]
    product = _worked(products, probes.PRODUCTS, _ROW_ELEMENTS, probes.PRODUCT_TURN, found, ranks)
    convolutions = times["convolutions"] - times["nothing"]
    turn = probes.CONVOLUTION_TURN
    convolution = _worked(convolutions, probes.CONVOLUTIONS, _PIXELS, turn, found, ranks)
    return msgspec.structs.replace(
        found,
        flop=product / (2 * _ROW_ELEMENTS * probes.WIDTH),
        convolved_flop=convolution / (2 * _PIXELS * probes.CHANNELS * (1 + probes.KERNEL**2) / 2),
    )


def _exchange_costs(
    times: Mapping[str, float], ranks: int, call: float, byte: float
) -> Mapping[str, float]:
    """The constants of a collective."""
    latency = max(_each(times["small"] - times["nothing"], probes.EXCHANGES) - call, _LEAST)
    large = _each(times["large"] - times["small"], probes.EXCHANGES)
    elements = probes.LARGE - probes.SMALL
    exchanged = (large - 3 * 4 * elements * byte) / (4 * elements * _share(ranks))
    return {"latency": latency, "exchanged_byte": max(exchanged, _LEAST)}


def _worked(
    seconds: float, count: int, elements: int, turn: int, costs: HostCosts, ranks: int
) -> float:
    """The seconds of one of `count` products or convolutions that give so many elements.

    Those of several ranks exchange them in turns, whose time is taken off.
    """
    exchanged = costs.latency + 4 * elements * _share(ranks) * costs.exchanged_byte
    each = _each(seconds, count) - costs.call
    return max(each - exchanged / turn if ranks > 1 else each, _LEAST)


def _share(ranks: int) -> float:
    """The part of an AllReduce's operand that a rank reads from others."""
    return 2.0 * (ranks - 1) / ranks


def _each(seconds: float, count: int) -> float:
    return max(seconds / count, _LEAST)
