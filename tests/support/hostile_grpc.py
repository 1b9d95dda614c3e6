"""Hostile messages of gRPC: a grammar of malformed requests to a model `echo`, in encoded form."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hostile_documents import SIZE

from rankmesh.orchestrator.server.grpc.protocol import inference

SERVICE = "/inference.GRPCInferenceService/"
METHODS = (
    *(
        "ModelInfer",
        "ModelReady",
        "ModelMetadata",
        "ModelConfig",
        "ModelStatistics",
        "RepositoryIndex",
    ),
    *("RepositoryModelLoad", "RepositoryModelUnload", "SystemSharedMemoryStatus", "TraceSetting"),
    *("SystemSharedMemoryRegister", "SystemSharedMemoryUnregister", "CudaSharedMemoryRegister"),
    *("LogSettings", "ServerLive", "ServerReady", "ServerMetadata", "NoSuchCall"),
)
_DIMENSIONS = (SIZE, 0, -1, -SIZE, 1, 1 << 31, 1 << 62, -(1 << 63))
_SIZES = (4 * SIZE, 4 * SIZE, 0, 1, 4 * SIZE + 1, 5000)
_NAMES = ("x", "x", "x", "y", "", "x\0", "x" * 3000)
_NUMBERS = (0, 1, -1, 1 << 62, -(1 << 63))
_PARAMETERS = (
    *("classification", "priority", "timeout", "sequence_id", "sequence_start", "binary_data"),
    *("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size", "x" * 300),
)


class HostileGrpc:
    """Draws the path of a call, and the bytes of its message."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kinds: list[Callable[[], bytes]] = [
            *(self._spoilt, self._spoilt, self._spoilt, self._mutated, self._mutated),
            *(self._truncated, self._rubbish, self._wired),
        ]

    def draw(self) -> tuple[str, bytes]:
        message = self._random.choice(self._kinds)()
        method = "ModelInfer" if self._random.random() < 0.8 else self._random.choice(METHODS)
        return SERVICE + method, message

    def _sound(self) -> inference.ModelInferRequest:
        message = inference.ModelInferRequest(model_name="echo")
        message.inputs.add(name="x", datatype="FP32", shape=[SIZE])
        message.raw_input_contents.append(self._random.randbytes(4 * SIZE))
        return message

    def _spoilt(self) -> bytes:
        """A message whose fields do not fit each other, or the model."""
        choose, message = self._random.choice, self._sound()
        for _ in range(self._random.randint(1, 4)):
            which = self._random.randrange(9)
            (x, *_) = message.inputs or [message.inputs.add()]
            if which == 0:
                x.shape[:] = [choose(_DIMENSIONS) for _ in range(choose([0, 1, 1, 2, 3, 40]))]
            elif which == 1:
                x.datatype = choose(["FP64", "BYTES", "", "fp32", "BF16", "X" * 3000])
            elif which == 2:
                x.name = choose(_NAMES)
            elif which == 3:
                contents = [
                    self._random.randbytes(choose(_SIZES)) for _ in range(choose([0, 1, 1, 2, 9]))
                ]
                message.raw_input_contents[:] = contents
            elif which == 4:
                self._type(x)
            elif which == 5:
                message.outputs.add(name=choose(["y", "y", "z", ""]))
            elif which == 6:
                self._set(choose([message.parameters, x.parameters]))
            elif which == 7:
                message.model_name = choose(["other", "", "../echo", "echo" * 999])
            else:
                message.model_version = choose(["1", "2", "-1", "9" * 30, "x", "1.0"])
        encoded: bytes = message.SerializeToString()
        return encoded

    def _type(self, x: inference.ModelInferRequest.InferInputTensor) -> None:
        """Typed contents, of any type."""
        count = self._random.choice([0, 1, SIZE, SIZE, 300])
        contents = x.contents
        which = self._random.randrange(4)
        if which == 0:
            contents.fp32_contents.extend([float("nan")] * count)
        elif which == 1:
            contents.int64_contents.extend([1 << 62] * count)
        elif which == 2:
            contents.bytes_contents.extend([b"\xff"] * count)
        else:
            contents.bool_contents.extend([True] * count)

    def _set(self, parameters: object) -> None:
        one = parameters[self._random.choice(_PARAMETERS)]  # type: ignore[index]
        which = self._random.randrange(4)
        if which == 0:
            one.int64_param = self._random.choice(_NUMBERS)
        elif which == 1:
            one.string_param = self._random.choice(_NAMES)
        elif which == 2:
            one.bool_param = True
        else:
            one.double_param = self._random.choice([float("nan"), float("inf"), -1.5])

    def _mutated(self) -> bytes:
        found = bytearray(
            self._spoilt() if self._random.random() < 0.5 else self._sound().SerializeToString()
        )
        for _ in range(self._random.randint(1, 6)):
            if found:
                found[self._random.randrange(len(found))] = self._random.randrange(256)
        return bytes(found)

    def _truncated(self) -> bytes:
        found = self._sound().SerializeToString()
        return bytes(found[: self._random.randrange(len(found))])

    def _rubbish(self) -> bytes:
        return self._random.randbytes(self._random.randint(0, 300))

    def _wired(self) -> bytes:
        """Fields with lengths beyond the end, of unknown numbers, or nested without an end."""
        sound = self._sound().SerializeToString()
        tag = bytes([self._random.randrange(256)])
        length = self._random.choice(
            [b"\xff" * 10, b"\xff" * 9 + b"\x01", b"\x80" * 30, b"\x7f", b"\xff\xff\x7f"]
        )
        nested = b"\x0b" * self._random.choice([1, 200, 20_000])  # groups that begin
        return self._random.choice(
            [sound + tag + length, tag + length + sound, nested, sound + nested]
        )
