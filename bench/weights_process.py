"""A process that does with models of its own what lines on its standard input say, for weights.py.

Each line is JSON, `[act, argument, ...]`; the answer is a line of JSON. One thread computes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rankmesh import Context, Model, ModelType, Tensor
from rankmesh.worker.api.model import weight_owner

_KIB = 1024


class Acts:
    """What can be asked for; one model at a time."""

    def __init__(self) -> None:
        import rankmesh.compiler.lowering.lower_mindir
        import rankmesh.compiler.mindir.reader
        import rankmesh.worker.cache.build_cache
        import rankmesh.worker.executors.onnxruntime
        import rankmesh.worker.session.session
        import rankmesh.worker.weights.weight_client  # noqa: F401
        from rankmesh.compiler.lowering.builder.registry import lowering_of, supported

        all(map(lowering_of, supported()))  # families are imported on demand
        self._run: Any = None
        self._model = Model()
        self._began = 0.0

    def build(self, path: str, config: dict[str, str], rows: int | None) -> dict[str, Any]:
        """A Model; the seconds of its build, and the handle of its weights if it shares them."""
        context = Context()
        context.target, context.cpu.thread_num = ["cpu"], 1
        start = self._began = time.perf_counter()
        self._model.build_from_file(
            path,
            ModelType.MINDIR,
            context,
            config_dict={"ascend_context": config} if config else None,
        )
        seconds = time.perf_counter() - start
        if rows:
            self._model.resize(
                self._model.get_inputs(), [[rows, *self._model.get_inputs()[0].shape[1:]]]
            )
        inputs = [np.ones(slot.shape, slot.dtype.name.lower()) for slot in self._model.get_inputs()]
        self._run = lambda: self._model.predict(inputs)
        return {
            "seconds": seconds,
            "handle": self._model.get_model_info("shareable_weight_mem_handle"),
        }

    def saved(self) -> float:
        """Seconds from the beginning of the build until the model cache has it."""
        for thread in threading.enumerate():
            if thread.name == "rankmesh-model-cache":
                thread.join()
        return time.perf_counter() - self._began

    def session(self, path: str, rows: int, prepacked: bool) -> None:
        """onnxruntime alone on the ONNX twin, for so many rows."""
        import onnx
        import onnxruntime as ort

        proto = onnx.load(path, load_external_data=False)
        for info in (*proto.graph.input, *proto.graph.output):
            info.type.tensor_type.shape.dim[0].dim_value = rows
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        options.add_session_config_entry("session.disable_prepacking", "0" if prepacked else "1")
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", os.path.dirname(path)
        )
        session = ort.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        x = np.ones(
            (rows, proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value), np.float32
        )
        self._run = lambda: session.run(None, {"x": x})

    def predict(self, count: int) -> list[float]:
        """The processor seconds of so many requests."""
        found = []
        for _ in range(count):
            start = time.thread_time()
            self._run()
            found.append(time.thread_time() - start)
        return found

    def memory(self) -> dict[str, Any]:
        """Bytes of this process's own share, and of each memory file that it has open, by inode."""
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        fields = {line.split(":")[0]: int(line.split()[1]) * _KIB for line in lines}
        return {"own": fields["Pss_Anon"] + fields["Pss_File"], "files": dict(_memory_files())}

    def update(self, name: str, times: int) -> list[list[float]]:
        """Replace a weight so often; seconds of each, and of a plain copy of as much memory just
        before.
        """
        weight = weight_owner(self._model).store.variables[name].copies[0]
        fresh, target = weight * np.float32(1.01), np.empty_like(weight)
        found = []
        for turn in range(times + 3):
            tensor = Tensor(fresh)
            tensor.name = name
            target[...] = fresh
            start = time.perf_counter()
            target[...] = fresh
            copied = time.perf_counter() - start
            start = time.perf_counter()
            self._model.update_weights([[tensor]])
            if turn > 2:  # the first ones make room
                found.append([time.perf_counter() - start, copied])
        return found

    def pauses(self, name: str, times: int) -> dict[str, float]:
        """The median request, and the medians of the longest one during an update and in as long a
        time at rest.
        """
        durations: list[tuple[float, float]] = []
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                start = time.perf_counter()
                self._run()
                durations.append((start, time.perf_counter()))

        thread = threading.Thread(target=serve)
        weight = weight_owner(self._model).store.variables[name].copies[0]
        tensor = Tensor(weight * np.float32(1.01))
        tensor.name = name
        for _ in range(3):
            self._model.update_weights([[tensor]])
        thread.start()
        updating, resting = [], []
        for _ in range(times):
            time.sleep(0.05)
            start = time.perf_counter()
            self._model.update_weights([[tensor]])
            end = time.perf_counter()
            time.sleep(0.05)
            updating.append((start, end))
            resting.append((end + 0.02, 2 * end + 0.02 - start))
        stop.set()
        thread.join()
        return {
            "request": float(np.median([b - a for a, b in durations])),
            "rest": _longest(durations, resting),
            "update": _longest(durations, updating),
        }

    def rate(self, name: str, per_second: float, seconds: float) -> float:
        """Requests per second while a weight is updated so many times a second."""
        stop = threading.Event()
        tensor = Tensor(
            weight_owner(self._model).store.variables[name].copies[0] * np.float32(1.01)
        )
        tensor.name = name
        thread = threading.Thread(target=self._keep_updating, args=(tensor, per_second, stop))
        if per_second:
            thread.start()
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            self._run()
            count += 1
        stop.set()
        if per_second:
            thread.join()
        return count / seconds

    def _keep_updating(self, tensor: Tensor, per_second: float, stop: threading.Event) -> None:
        while not stop.wait(1 / per_second):
            self._model.update_weights([[tensor]])

    def allow(self, pid: int) -> None:
        """List one more process."""
        weight_owner(self._model).share((pid,))

    def attach(self, handle: int, times: int) -> list[float]:
        """Seconds from asking for memory to its being mapped."""
        from rankmesh.comm.host.sealed_memory import map_read_only
        from rankmesh.comm.sharing.attachment import Attachment

        found = []
        for _ in range(times):
            start = time.perf_counter()
            with closing(Attachment(handle, "bench", "cpu")) as attached:
                map_read_only(attached.fds[0])
            found.append(time.perf_counter() - start)
            time.sleep(0.02)  # an owner takes at most a hundred requests of one process in a second
        return found

    def own(self, pid: int) -> int:
        """Share 64 MiB with a process; the handle."""
        from rankmesh.comm.host.sealed_memory import SealedMemory
        from rankmesh.comm.sharing.broker import Broker
        from rankmesh.comm.sharing.whitelist import Whitelist

        self._file = SealedMemory("bench", 1 << 26)
        self._broker = Broker(Whitelist([pid]), "bench", "cpu", [self._file.fd])
        self._broker.start()
        return self._broker.handle


def _longest(durations: list[tuple[float, float]], spans: list[tuple[float, float]]) -> float:
    """The median over spans of time of the longest of the durations that touch one."""
    return float(
        np.median(
            [
                max((b - a for a, b in durations if b > start and a < end), default=0.0)
                for start, end in spans
            ]
        )
    )


def _memory_files() -> list[tuple[str, int]]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:"):
                status = os.fstat(int(name))
                found.append((str(status.st_ino), status.st_blocks * 512))
        except OSError:  # the descriptor of the listing itself
            continue
    return found


def main() -> None:
    acts = Acts()
    print("ready", flush=True)
    for line in sys.stdin:
        act, *arguments = json.loads(line)
        print(json.dumps(getattr(acts, act)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
