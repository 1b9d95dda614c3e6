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
from ...compiler.slicing.planning.costs import HostCosts
from ...compiler.slicing.planning.host_costs import keep_costs
from . import probes

_TIMEOUT = 120.0
_ROUNDS = 3
_LEAST = 1e-15
"""Seconds: a difference of two times that is less is noise."""

_ROW_ELEMENTS = probes.ROWS * probes.WIDTH
_PIXELS = probes.IMAGE**2 * probes.CHANNELS
_LARGE_PIXELS = probes.LARGE_IMAGE**2 * probes.FEW_CHANNELS
"""Elements that a product gives, a convolution, and one of the large images."""


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
    alone = costs_from(times[1])
    found = {1: alone, ranks: shared_costs(times[ranks], ranks, times[1], alone)}
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
        if ranks > 1 or name not in probes.OF_SEVERAL
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


def costs_from(times: Mapping[str, float]) -> HostCosts:
    """The constants that explain the times of the probes of one rank, in seconds."""
    found = _node_costs(times)
    product = _each(times["products"] - times["nothing"], probes.PRODUCTS)
    convolution = _each(times["convolutions"] - times["nothing"], probes.CONVOLUTIONS)
    return _with_arithmetic(found, product, convolution)


def shared_costs(
    times: Mapping[str, float], ranks: int, alone_times: Mapping[str, float], alone: HostCosts
) -> HostCosts:
    """Those of several ranks, which exchange results; `alone` are the constants of one rank.

    The times of exchanges are taken off those of products and convolutions. The rest has in it
    the time in which ranks wait for each other. Several ranks are never faster than one.
    """
    found = _node_costs(times)
    found = msgspec.structs.replace(found, **_exchange_costs(times, ranks, found))
    cut = _each(times["images"] - alone_times["images"], probes.IMAGES)
    cut -= _exchanged(_LARGE_PIXELS, ranks, found) + 3 * found.call + 8 * _LARGE_PIXELS * found.byte
    found = msgspec.structs.replace(found, image_byte=max(cut / (4 * _LARGE_PIXELS), _LEAST))
    product = _each(times["products"] - times["nothing"], probes.PRODUCTS)
    product -= _exchanged(_ROW_ELEMENTS, ranks, found) / probes.PRODUCT_TURN
    convolution = _each(times["convolutions"] - times["nothing"], probes.CONVOLUTIONS)
    convolution -= _exchanged(_PIXELS, ranks, found) / probes.CONVOLUTION_TURN
    found = _with_arithmetic(found, product, convolution)
    return msgspec.structs.replace(
        found,
        flop=max(found.flop, alone.flop),
        convolved_flop=max(found.convolved_flop, alone.convolved_flop),
    )


def _node_costs(times: Mapping[str, float]) -> HostCosts:
    """The constants of a node, and of a byte."""
    call = _each(times["calls"] - times["nothing"], probes.CALLS)
    copy = _each(times["copies"] - times["nothing"], probes.COPIES) - call
    return HostCosts(call=call, byte=max(copy / (3 * 4 * probes.COPIED), _LEAST))


def _with_arithmetic(costs: HostCosts, product: float, convolution: float) -> HostCosts:
    """Those of arithmetic as well, from the seconds of a product and of a convolution."""
    products = 2 * _ROW_ELEMENTS * probes.WIDTH
    convolved = 2 * _PIXELS * probes.CHANNELS * (1 + probes.KERNEL**2) / 2
    return msgspec.structs.replace(
        costs,
        flop=max(product - costs.call, _LEAST) / products,
        convolved_flop=max(convolution - costs.call, _LEAST) / convolved,
    )


def _exchange_costs(
    times: Mapping[str, float], ranks: int, costs: HostCosts
) -> Mapping[str, float]:
    """The constants of a collective."""
    large = _each(times["large"] - times["small"], probes.EXCHANGES)
    elements = probes.LARGE - probes.SMALL
    exchanged = (large - 3 * 4 * elements * costs.byte) / (4 * elements * _share(ranks))
    exchanged = max(exchanged, _LEAST)
    each = _each(times["exchanged works"] - times["works"], probes.EXCHANGES)
    latency = each - 4 * probes.WORKED * _share(ranks) * exchanged
    return {"latency": max(latency, _LEAST), "exchanged_byte": exchanged}


def _exchanged(elements: int, ranks: int, costs: HostCosts) -> float:
    """The seconds of an AllReduce."""
    return costs.latency + 4 * elements * _share(ranks) * costs.exchanged_byte


def _share(ranks: int) -> float:
    """The part of an AllReduce's operand that a rank reads from others."""
    return 2.0 * (ranks - 1) / ranks


def _each(seconds: float, count: int) -> float:
    return max(seconds / count, _LEAST)
