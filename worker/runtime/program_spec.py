"""Program specification: the model file and every choice that its program on one rank depends on.

Importing this loads neither numpy nor onnx: a launcher makes specifications and sends them to its
ranks.
"""

from __future__ import annotations

import msgspec

from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.model_assets import NO_ASSETS, ModelAssets
from ..cache.settings import CacheLocation
from ..executors.settings import ExecutorSettings, PrecisionSettings


class ProgramSpec(msgspec.Struct, frozen=True):
    """One program, but for the ranks that run it together.

    `path` is the rank's model file. `input_shapes`, in the order of the model's inputs, take the
    place of those that the file declares. `decryption` opens encrypted files. `cache` is where
    builds are kept, None for nowhere. `allow_equal_shards` and `same_inputs` say whether ranks may
    have equal shards, and whether all ranks get the same inputs (None: unknown).
    """

    path: str
    executor: ExecutorSettings = ExecutorSettings()
    precision: PrecisionSettings = PrecisionSettings()
    cache: CacheLocation | None = None
    decryption: Decryption | None = None
    assets: ModelAssets = NO_ASSETS
    input_shapes: tuple[tuple[int, ...], ...] | None = None
    allow_equal_shards: bool = False
    same_inputs: bool | None = None

    @property
    def device(self) -> str:
        """The kind of device that the program runs on: "cpu", "gpu" or "ascend"."""
        return self.executor.device

    def at(self, path: str, device_id: int) -> ProgramSpec:
        """The same for another model file, on another device of that kind."""
        executor = msgspec.structs.replace(self.executor, device_id=device_id)
        return msgspec.structs.replace(self, path=path, executor=executor)

    def resized(self, shapes: tuple[tuple[int, ...], ...] | None) -> ProgramSpec:
        """The same with these input shapes, None for those of the file."""
        return msgspec.structs.replace(self, input_shapes=shapes)
