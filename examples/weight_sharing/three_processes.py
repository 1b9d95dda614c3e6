"""Shared weights: three processes use one copy, which the first one owns.

Each user sends its process id to the owner. The owner builds the model for these ids alone, and
hands out a handle: a number that finds the weights. A fourth process has the handle but is not on
the list, and is refused. Started by run.sh, which makes model/unet.mindir.
"""

import ctypes
import time
from multiprocessing import Array, Barrier, Event, Process, Value
from typing import Any

import mindspore_lite as mslite
import numpy as np

MODEL = "./model/unet.mindir"
USERS = 2
PATIENCE = 60  # seconds that one process waits for the others


class Shared:
    """The data that the processes exchange."""

    def __init__(self) -> None:
        self.pids = Array("i", [0] * (1 + USERS))  # the owner's place stays 0
        self.handle = Value(ctypes.c_int64, 0)
        self.introduced = Barrier(1 + USERS)  # all users have written their ids
        self.owned = Event()  # the handle is there
        self.built = Barrier(1 + USERS)  # all have a model
        self.over = Event()  # the owner may end


def say(*words: object) -> None:
    """Print in one piece, as other processes print too."""
    print(" ".join(map(str, words)) + "\n", end="", flush=True)


def build(model: mslite.Model, **settings: str) -> None:
    """Build with settings of the section ascend_context."""
    context = mslite.Context()
    context.target = ["ascend"]
    context.ascend.device_id = 0  # the same device in all processes
    model.build_from_file(
        MODEL, mslite.ModelType.MINDIR, context, config_dict={"ascend_context": settings}
    )


def infer(model: mslite.Model, index: int) -> None:
    """Predict four rows with a model that was exported for one."""
    data = [
        np.random.default_rng(index).standard_normal((4, 512), np.float32),
        np.array([index], np.int32),
    ]
    inputs = model.get_inputs()
    began = time.time()
    model.resize(inputs, [list(array.shape) for array in data])
    for tensor, array in zip(inputs, data, strict=True):
        tensor.set_data_from_numpy(array)
    results = [output.get_data_to_numpy() for output in model.predict(inputs)]
    say("share ", index, " ", results)
    say("share ", index, "spend time:", time.time() - began, "s")


def own(shared: Shared) -> None:
    """Share the weights with the processes on the list, for as long as this process keeps its
    model.
    """
    shared.introduced.wait(PATIENCE)
    pids = str(list(shared.pids))[1:-1]
    say("str of pids:", pids)
    model = mslite.Model()
    build(model, shareable_weight_pid_list=pids)
    handle = model.get_model_info("shareable_weight_mem_handle")  # a text
    say("shareable handle:", handle)
    shared.handle.value = int(handle)
    say("int shareable_handle:", shared.handle.value)
    shared.owned.set()
    shared.built.wait(PATIENCE)
    infer(model, 0)
    shared.over.wait(PATIENCE)


def use(shared: Shared, index: int) -> None:
    """Introduce this process, and build a model over the owner's weights."""
    model = mslite.Model()
    pid = int(model.get_model_info("current_pid"))  # works before the build
    say("pid:", pid)
    shared.pids[index] = pid
    shared.introduced.wait(PATIENCE)
    shared.owned.wait(PATIENCE)
    say("sub process sharehandle:", shared.handle.value)
    build(model, shareable_weight_mem_handle=str(shared.handle.value))
    shared.built.wait(PATIENCE)
    infer(model, index)


def intrude(shared: Shared) -> None:
    """Try the same without being on the list."""
    shared.owned.wait(PATIENCE)
    try:
        build(mslite.Model(), shareable_weight_mem_handle=str(shared.handle.value))
    except RuntimeError as error:
        say("refused:", error)


def main() -> None:
    """Start all processes and wait for them; the owner may end once the others have."""
    shared = Shared()
    roles: list[tuple[Any, ...]] = [(use, shared, index) for index in range(1, 1 + USERS)]
    roles.append((intrude, shared))
    owner = Process(target=own, args=(shared,))
    others = [Process(target=role, args=arguments) for role, *arguments in roles]
    for process in (owner, *others):
        process.start()
    for process in others:
        process.join()
    shared.over.set()
    owner.join()
    if any(process.exitcode for process in (owner, *others)):
        raise SystemExit("a process failed: its error is above")


if __name__ == "__main__":
    main()
