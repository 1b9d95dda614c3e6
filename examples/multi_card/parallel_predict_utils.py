"""Processes for a model on several devices: one for each device, with a pipe to each."""

import logging
from collections.abc import Sequence
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

import numpy as np
from mslite_engine import MSLitePredict

ERROR, PREDICT, REPLY, BUILD_FINISH, EXIT = range(5)  # what a message is; its content follows


def predict_process_func(pipe: Connection, model_path: str, device_id: int) -> None:
    """The work of a child: build, then answer until told to end.

    An error goes to the parent, and ends the child.
    """
    try:
        engine = MSLitePredict(model_path, device_id)
        pipe.send((BUILD_FINISH, ""))
        while True:
            kind, content = pipe.recv()
            if kind == EXIT:
                print(f"Receive exit message {content} and start to exit\n", end="", flush=True)
                return
            if kind != PREDICT:
                raise RuntimeError(f"expected EXIT or PREDICT, got message {kind}")
            pipe.send((REPLY, engine.run(content)))
    except Exception as error:
        logging.exception(error)
        pipe.send((ERROR, str(error)))
        raise


class ParallelPredictUtils:
    """The same model on `device_num` devices."""

    def __init__(self, model_path: str, device_num: int) -> None:
        self._model_path = model_path
        self._device_num = device_num
        self._pipes: list[Connection] = []
        self._processes: list[Process] = []

    def build_model(self) -> None:
        """Start the children one after the other.

        Each has built before the next one takes memory for it.
        """
        for device_id in range(self._device_num):
            pipe, child_end = Pipe()
            process = Process(
                target=predict_process_func, args=(child_end, self._model_path, device_id)
            )
            process.start()
            # the child alone has it now: should it die, receiving from it ends in an EOFError
            child_end.close()
            self._pipes.append(pipe)
            self._processes.append(process)
            _receive(pipe, BUILD_FINISH, f"Failed to build model {device_id}")
            print(f"Success to build model {device_id}", flush=True)

    def run_predict(self, inputs: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Each device's outputs for its inputs, in the order of the devices, computed at the same
        time.
        """
        for pipe, arrays in zip(self._pipes, inputs, strict=True):
            pipe.send((PREDICT, arrays))
        return [_receive(pipe, REPLY, "Failed to call predict") for pipe in self._pipes]

    def finalize(self) -> None:
        """End the children that are still there, and wait for them."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if process.is_alive():
                pipe.send((EXIT, ""))
        for process in self._processes:
            process.join()


def _receive(pipe: Connection, expected: int, failure: str) -> list[np.ndarray]:
    """The content of a child's next message; RuntimeError where that is an error."""
    try:
        kind, content = pipe.recv()
    except EOFError:
        raise RuntimeError(f"{failure}, its process has ended") from None
    if kind == ERROR:
        raise RuntimeError(f"{failure}, exception occur: {content}")
    assert kind == expected, f"expected message {expected}, got {kind}"
    return content
