"""From a Context and a model's path to a Program: which rank, which file, which device, which threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..comm.config import Config
from ..comm.context import Context
from ..comm.counted import counted
from ..comm.errors import ModelError, UsageError
from ..comm.gpus import gpu_count
from ..comm.rank import Rank
from ..comm.rendezvous import Meeting
from ..comm.shard import find_shards
from .affinity import choose_cores
from .cache.build_cache import build_cache
from .companions import Companions
from .cores import agree_on_cores
from .device import choose_device, device_id
from .equal_shards import asked
from .executors.base import Executor
from .executors.precise import Precise
from .group_share import GroupShare
from .loading_line import LoadingLine, ShownMeeting
from .meet import meet, use_collectives
from .mindir.crypto import Decryption
from .precision import Precision
from .program import Program

if TYPE_CHECKING:
    from .weights.live_weights import LiveWeights


def open_program(path: str, context: Context, config: Config,
                 input_shapes: Sequence[tuple[int, ...]] | None = None,
                 decryption: Decryption | None = None, live: LiveWeights | None = None,
                 share: GroupShare | None = None) -> Program:
    """Join the other ranks and open this rank's shard of the model at `path`, if need be for other input shapes.

    `decryption` opens encrypted shards; `live` are the weights where they are shared or updated; `share` is what the
    model has in common with those of its group.

    Raises the errors of comm/errors.py.
    """
    meeting = meet(context, config)
    device = choose_device(context.target)
    use_collectives(meeting, device)
    precision = Precision.asked(context, config, device)
    number = device_id(device, context, meeting.rank, gpu_count())
    own, cores = _executor(context, meeting, device, number, share)
    executor = Precise(_live(own, live, device, number) if live else _sharing(own, share, device), precision, device)
    shard = _shard(path, meeting.rank)
    companions = Companions.of(context, config)
    own_files = not (live or companions or share and share.weights)  # the cache knows models by their own files alone
    cache = build_cache(config, meeting.rank, executor, device) if own_files else None
    with LoadingLine(shard, meeting.rank) as line:
        program = Program.open(shard, ShownMeeting(meeting, line), executor, input_shapes, decryption, cache, live,
                               companions, asked())
    program.cores = cores[:1]
    if not program.kept:  # with what comes from the cache, no node was looked at
        precision.warn_of_unknown(shard)
    return program


def _live(executor: Executor, live: LiveWeights, device: str, number: int) -> Executor:
    """An executor whose sessions read the weights where they are shared or updated."""
    from ..comm.sharing.gpu import Gpu
    from .executors.live import Live

    if device not in ("cpu", "gpu"):
        raise UsageError(f"device {device}: weights are shared and updated on CPUs and NVIDIA GPUs only. Leave "
                         f"shareable_weight_pid_list, shareable_weight_mem_handle and variable_weights_file away, or "
                         f"run on the CPU (RANKMESH_DEVICE=cpu).")
    if not live.opened:  # else this is another program over the same weights, on the same device
        live.gpu = Gpu(number) if device == "gpu" else None
        live.device = live.gpu.name if live.gpu else device
    return Live(executor)


def _sharing(executor: Executor, share: GroupShare | None, device: str) -> Executor:
    """The executor of a group's model; only on CPUs can weights be shared."""
    return share.executor(executor) if share and device == "cpu" else executor


def _shard(path: str, rank: Rank) -> str:
    """The file of this rank; the model may be one for all ranks, or numbered ones, one per rank."""
    shards = find_shards(path)
    if shards.numbered and shards.count != rank.world_size:
        raise ModelError(f"{path}: names {counted(shards.count, 'shard')} ({shards.path(0)}, ...), and this is "
                         f"a job of {counted(rank.world_size, 'rank')}: start {shards.count} (rankmesh launch --ranks "
                         f"{shards.count} SCRIPT, or mpirun -n {shards.count} ...), or name one file.")
    return shards.path(rank.rank)


def _executor(context: Context, meeting: Meeting, device: str, number: int,
              share: GroupShare | None) -> tuple[Executor, Sequence[int]]:
    """What runs segments, and the core of each of its threads where the context binds them."""
    from .executors.onnxruntime import OnnxRuntime

    cores = agree_on_cores(meeting)
    if cores and meeting.rank.local_size > 1:
        os.sched_setaffinity(0, cores)
    listed = context.cpu.thread_affinity_core_list
    threads = context.cpu.thread_num or max(1, len(listed or cores))
    bound = choose_cores(context.cpu, threads, cores or sorted(os.sched_getaffinity(0)))
    return OnnxRuntime(device, number, threads, threads <= len(cores),
                       workspace=bool(share and share.workspace),
                       own_pools=meeting.rank.world_size == 1, cores=bound), bound
