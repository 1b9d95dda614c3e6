"""Settings of a model: say which files it has, and how an orchestrator runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ...comm.job.shard import RANK
from ...comm.limits import MOST_THREADS
from ...comm.serving.precision_modes import MODES, NODE_TYPES
from ...comm.text import yes_or_no
from ...rank_tables.check import MAX_RANKS
from .chain_settings import ChainSettings
from .generation_settings import GenerationSettings
from .queue_policy import QueuePolicy
from .setting_checks import FORBID_OTHERS, SettingFault, check_count, check_one_of, check_seconds

OFF = "off"
DEVICES = ("cpu", "gpu", "ascend")
_COUNTS = {"ranks": MAX_RANKS, "replicas": MAX_RANKS, "threads": MOST_THREADS, "version": None}


@dataclass(frozen=True, slots=True)
class BatchingSettings:
    """Dynamic batching: up to `max_batch` rows run as one request, none of which waits more than
    `max_delay` seconds.

    `inputs` are those with one row per example along dimension 0; by default all whose first
    dimension is open. A batch of one of the `preferred` numbers of rows waits for no more.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    max_batch: int
    max_delay: float = 0.0
    inputs: tuple[str, ...] | None = None
    preferred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_count("max_batch", self.max_batch)
        for rows in self.preferred:
            check_count("preferred", rows)
            if rows > self.max_batch:
                raise SettingFault(
                    "preferred", f"got {rows}, expected max_batch, {self.max_batch}, or less."
                )
        check_seconds("max_delay", self.max_delay, or_zero=True)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model: `replicas` replicas of `ranks` ranks each.

    A None of `ranks`, `replicas`, `device`, `devices`, `threads` or `collectives` is filled in from
    the files, the rank table and the devices of the host. Times are in seconds.

    - `path`: a file, or a pattern with `{rank}`; `name`: what requests call the model, by default
      the name of its file; `version`: its number, by default the next one.
    - `devices`: one id per rank, replica after replica; `rank_table`: a file that says the same.
    - `threads`: of each rank.
    - `timeout`: for requests that name none; None: no deadline. `queue_limit`: how many may wait.
    - `start_timeout`: until ranks are ready. `hang_timeout`: without progress; 0: no limit.
    - `restart_budget`: how often ranks start again without a completed request between.
    - `warm_up`: each rank runs once before it is ready.
    - `allow_equal_shards`: ranks of a replica may have equal shards.
    - `cache`: the folder of the model cache, or False for none; True: that of RANKMESH_CACHE, else
      ~/.cache/rankmesh/models.
    - `slice`: slices a whole model first: `tensor=2,pipeline=2`, with `data=2` in two replicas, or
      `auto` for `ranks` ranks, which may become as many replicas of the whole model where these
      are predicted to be faster. `slice_dir`: where the shards are kept, by default in the model
      cache.
    - `executor`: `onnxruntime`, `torch`, or that of an installed package; by default the one that
      suits the device.
    - `precision_mode`: as in a Context, such as `preferred_fp16`; `execution_plan`: the types of
      single nodes, by their names in the file, where `*` stands for any text.
    - `queue`: bounds for requests of single priorities; see QueuePolicy.
    - `labels`: by the name of an output, a file with one label per line for its classes.
    - `generation`: how a decoder generates text; see GenerationSettings.
    - `policy`: the scheduling policy by name, by default `batching` with `batching`, else
      `priority`; orchestrator/scheduling/policies.py tells how to add one.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    path: str
    name: str = ""
    ranks: int | None = None
    replicas: int | None = None
    rank_table: str | None = None
    device: str | None = None
    devices: tuple[int, ...] | None = None
    threads: int | None = None
    collectives: str | None = None
    batching: BatchingSettings | None = None
    timeout: float | None = 60.0
    queue_limit: int = 1000
    restart_budget: int = 5
    start_timeout: float = 120.0
    hang_timeout: float = 30.0
    warm_up: bool = True
    allow_equal_shards: bool = False
    cache: bool | str = True
    slice: str | None = None
    slice_dir: str | None = None
    policy: str | None = None
    executor: str | None = None
    labels: dict[str, str] | None = None
    version: int | None = None
    queue: tuple[QueuePolicy, ...] = ()
    precision_mode: str | None = None
    execution_plan: dict[str, str] | None = None
    generation: GenerationSettings | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be, whatever the model."""
        if not self.path:
            raise SettingFault(
                "path", "got an empty text, expected a model file or a pattern with {rank}."
            )
        for key, most in _COUNTS.items():
            if getattr(self, key) is not None:
                check_count(key, getattr(self, key), most=most)
        check_count("queue_limit", self.queue_limit)
        check_count("restart_budget", self.restart_budget, least=0)
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)
        check_seconds("start_timeout", self.start_timeout)
        check_seconds("hang_timeout", self.hang_timeout, or_zero=True)
        if self.device is not None:
            check_one_of("device", self.device, DEVICES)
        if self.precision_mode is not None:
            check_one_of("precision_mode", self.precision_mode, MODES)
        for kind in (self.execution_plan or {}).values():
            check_one_of("execution_plan", kind, NODE_TYPES)
        for device in self.devices or ():
            check_count("devices", device, least=0)
        if self.cache == "":
            raise SettingFault("cache", "got an empty text, expected a folder, or off.")
        if self.devices == ():
            raise SettingFault("devices", "got none, expected one id per rank, or leave it out.")

    @property
    def label(self) -> str:
        """The name by which requests call the model, by default that of its file without suffix and
        number.
        """
        name = os.path.basename(os.path.abspath(self.path))
        if os.path.isdir(self.path):  # a dot is part of its name
            return self.name or name
        stem = os.path.splitext(name)[0].replace(RANK, "")
        return self.name or stem.removesuffix("_rank").rstrip("_-.") or stem

    @property
    def cache_folder(self) -> str:
        """The folder of the model cache, "off" for none, "" for the usual one."""
        wanted = yes_or_no(self.cache) if isinstance(self.cache, str) else self.cache
        return OFF if wanted is False else "" if wanted else str(self.cache)


ServedSettings: TypeAlias = ModelSettings | ChainSettings
"""Settings of anything that answers requests."""
