"""One contender's calls of a small model: `calling.py run|program|model MODEL new|same` prints the
microseconds of one.

MODEL is ONNX; every input gets ones, `new` arrays in each call or the `same`. One thread. The
figure is the least of many batches of calls, as timeit has it: what disturbs a call of microseconds
only adds to it.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import numpy as np

_BATCHES, _CALLS = 200, 50
Feed = dict[str, np.ndarray]


def with_run(path: str) -> tuple[Callable[[Feed], object], Feed]:
    """onnxruntime's own call, and the inputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {slot.name: np.ones(slot.shape, np.float32) for slot in session.get_inputs()}
    return lambda feed: session.run(None, feed), feed


def with_model(path: str) -> tuple[Callable[[Feed], object], Feed]:
    """The public API: what a user's script does."""
    from rankmesh import Context, Model, ModelType

    context = Context()
    context.target, context.cpu.thread_num = ["cpu"], 1
    model = Model()
    model.build_from_file(path, ModelType.MINDIR, context)
    feed = {tensor.name: np.ones(tensor.shape, np.float32) for tensor in model.get_inputs()}
    return lambda feed: model.predict(list(feed.values())), feed


def with_program(path: str) -> tuple[Callable[[Feed], object], Feed]:
    """What `rankmesh run` calls."""
    from rankmesh import Context
    from rankmesh.compiler.model_file.config import Config
    from rankmesh.worker.session.engine import model_spec, open_model
    from rankmesh.worker.session.meet import meet

    context = Context()
    context.target, context.cpu.thread_num = ["cpu"], 1
    rendezvous = meet(context, Config())
    program = open_model(model_spec(path, context, Config(), rendezvous), rendezvous)
    feed = {one.name: np.ones(one.type.shape, np.float32) for one in program.plan.inputs}
    return program.predict, feed


def microseconds(call: Callable[[Feed], object], feeds: list[Feed]) -> float:
    """The time of a call in the fastest batch."""
    found = []
    for _ in range(_BATCHES):
        start = time.perf_counter()
        for feed in feeds:
            call(feed)
        found.append((time.perf_counter() - start) / len(feeds))
    return min(found) * 1e6


def main() -> None:
    who, path, arrays = sys.argv[1:]
    call, feed = {"run": with_run, "program": with_program, "model": with_model}[who](path)
    feeds = (
        [feed] * _CALLS
        if arrays == "same"
        else [{n: a.copy() for n, a in feed.items()} for _ in range(_CALLS)]
    )
    gc.collect()
    print(microseconds(call, feeds))


if __name__ == "__main__":
    main()
