"""Measuring: runs the levels of a bench one after the other, each with a warm-up before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from .figures import LevelFigures, MeasuredTime, figures
from .levels import Level
from .load import loop_of
from .reference import Reference
from .samples import Samples
from .targets.observation import Observation
from .targets.reply import RequestFailed
from .targets.target import Target


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Levels, each of which is measured for `seconds` after `warm_up` seconds; each request has
    `timeout` seconds. `seed` chooses inputs and moments of arrival.
    """

    levels: Sequence[Level]
    seconds: float
    warm_up: float
    timeout: float
    seed: int


@dataclass(slots=True)
class Measurement:
    """The figures so far, and the first sentence of each class of failures."""

    figures: list[LevelFigures] = field(default_factory=list)
    sentences: dict[str, str] = field(default_factory=dict)
    signal: int = 0
    """The number of the signal that ended it early."""


async def measure(
    target: Target,
    plan: LoadPlan,
    reference: Reference,
    found: Measurement,
    stop: asyncio.Event,
    done: Callable[[LevelFigures], None],
) -> None:
    """Measure all levels; after `stop` is set, only what there is of the present one."""
    for level in plan.levels:
        samples = Samples(reference)
        window = await _measured(target, level, plan, samples, stop)
        found.sentences |= {**samples.sentences, **found.sentences}
        if window is not None:
            found.figures.append(figures(level, samples, window))
            done(found.figures[-1])
        if stop.is_set():
            return


async def _measured(
    target: Target, level: Level, plan: LoadPlan, samples: Samples, stop: asyncio.Event
) -> MeasuredTime | None:
    """Load the target at a level; None where that was stopped in its warm-up."""
    loop = loop_of(level, target, plan.timeout, plan.seed)
    end = time.monotonic() + plan.warm_up + plan.seconds
    load = asyncio.create_task(loop.run(samples, end))
    try:
        if await _stopped(stop, plan.warm_up):
            return None
        before = await _observed(target)
        begin, spent = time.monotonic(), time.thread_time()
        samples.begin = begin
        stopped = await _stopped(stop, end - begin)
        end, spent = time.monotonic(), time.thread_time() - spent
        window = MeasuredTime(end, end - begin, spent, before, await _observed(target))
        if not stopped:
            await load
        return window
    finally:
        load.cancel()
        with suppress(asyncio.CancelledError):
            await load
        await loop.close()


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until `stop` is set; whether it is."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(stop.wait(), max(0.0, seconds))
    return stop.is_set()


async def _observed(target: Target) -> Observation:
    try:
        return await target.observe()
    except RequestFailed:  # some servers do not tell
        return Observation()
