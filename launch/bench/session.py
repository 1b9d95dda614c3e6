"""Session: one bench of an open target, from its first request to its last level."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ...comm.arrays import Array
from ...comm.errors import UsageError
from .figures import LevelFigures
from .inputs import expected_outputs, given_inputs, random_inputs, shapes_of
from .measuring import Measurement, measure
from .options import BenchOptions
from .reference import Reference, require_right
from .targets.reply import RequestFailed
from .targets.target import Target

_STOPPING = (signal.SIGINT, signal.SIGTERM)


async def measured(
    target: Target, options: BenchOptions, done: Callable[[LevelFigures], None]
) -> Measurement:
    """Measure all levels; `done` is called after each. A signal ends that early.

    Raises InputError and UsageError where the first request cannot be made or is refused.
    """
    found = Measurement()
    target.prepare(_inputs(target, options))
    reference = await _reference(target, options)
    with _stopped_by_signals(found) as stop:
        await measure(target, options.plan, reference, found, stop, done)
    return found


def _inputs(target: Target, options: BenchOptions) -> Mapping[str, Array]:
    request = options.request
    if request.inputs is not None:
        return given_inputs(target.model, request.inputs)
    return random_inputs(target.model, shapes_of(request.shapes), options.plan.seed)


async def _reference(target: Target, options: BenchOptions) -> Reference:
    """The outputs of a file, or the first answer."""
    connection = target.connection()
    try:
        reply = await connection.ask(options.plan.timeout)
        outputs = target.outputs(reply)
    except RequestFailed as error:
        hint = "" if options.request.inputs else " Give other inputs with --inputs FILE.npz."
        raise UsageError(f"the first request failed: {error.kind}: {error}{hint}") from None
    finally:
        await connection.close()
    path = options.request.expect
    if path is None:
        return Reference(target, outputs)
    reference = Reference(target, expected_outputs(target.model, path))
    require_right(reference, reply, path)
    return reference


@contextmanager
def _stopped_by_signals(found: Measurement) -> Iterator[asyncio.Event]:
    """An event that INT and TERM set in the block."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(number: int) -> None:
        found.signal = number
        stop.set()

    old = {one: signal.getsignal(one) for one in _STOPPING}
    for one in _STOPPING:
        loop.add_signal_handler(one, note, one)
    try:
        yield stop
    finally:
        for one, handler in old.items():
            loop.remove_signal_handler(one)
            signal.signal(one, handler)
