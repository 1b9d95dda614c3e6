"""Options of `rankmesh run`: the user's, and the job that they describe for the ranks."""

from __future__ import annotations

from dataclasses import dataclass

from ...comm.job.shard import RANK, Shards
from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.config import Config
from ...compiler.model_file.model_assets import NO_ASSETS, ModelAssets
from ...worker.cache.settings import configured_cache
from ...worker.executors.settings import ExecutorSettings, PrecisionSettings
from ...worker.runtime.program_spec import ProgramSpec
from ..rank.job import RunJob


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's options; None: not given."""

    model: str
    ranks: int | None = None
    rank_table: str | None = None
    inputs: str | None = None
    expect: str | None = None
    rtol: float | None = None
    atol: float | None = None
    save: str | None = None
    repeat: int = 0
    device: str | None = None
    collectives: str | None = None
    oversubscribe: bool = False
    verbose: bool = False
    decryption: Decryption | None = None
    config: str | None = None
    allow_equal_shards: bool = False
    slice: str | None = None
    slice_dir: str | None = None

    def job(self, shards: Shards, device: str, config: Config, spin: bool) -> RunJob:
        """The job of every rank, once the device is chosen. Raises UsageError."""
        precision, assets = PrecisionSettings.default(device), NO_ASSETS
        if self.config is not None:
            from ...worker.api_types.context import Context

            context = Context()
            context.target = [device]
            precision = PrecisionSettings.asked(context, config, device)
            assets = ModelAssets.of(config)
        spec = ProgramSpec(
            shards.pattern,
            ExecutorSettings(device, spin=spin),
            precision,
            # the cache identifies models by their own files only
            configured_cache(config) if device == "cpu" and not assets else None,
            self.decryption,
            assets,
            allow_equal_shards=self.allow_equal_shards,
            same_inputs=RANK not in (self.inputs or ""),
        )
        return RunJob(
            spec,
            shards.count,
            self.collectives,
            self.inputs,
            self.expect,
            self.save,
            self.rtol,
            self.atol,
            self.repeat,
        )
