"""Shard of a rank as the model that it serves: opened as its job says."""

from __future__ import annotations

import os

from ...comm.errors import ModelError, UsageError
from ...comm.host.visible_gpus import claim_gpu
from ...comm.job.rank import Rank
from ...comm.job.shard import Shards
from ...comm.job_memory.progress import Progress, Stage
from ...comm.rendezvous.rendezvous import Rendezvous
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.serving.orders import ServeJob
from ...compiler.mindir.crypto import decryption_from_environment
from ..cache.settings import served_cache
from ..executors.settings import ExecutorSettings, PrecisionSettings, executor_name
from ..runtime.program_spec import ProgramSpec
from ..session.hardware import best_device
from ..session.meet import use_collectives
from .model_server import ModelServer
from .rank_model import RankModel
from .string_model import open_string_model
from .swappable_program import SwappableProgram


def open_shard(
    job: ServeJob, rendezvous: Rendezvous, tensors: TensorArena, progress: Progress
) -> ModelServer:
    """Join the other ranks, open this rank's shard, and run it once if its shapes allow. Raises as
    open_program.
    """
    spec = spec_of(job, rendezvous.rank)
    model = _opened(job, spec, rendezvous)
    if spec.device == "gpu":
        _register(tensors, spec.executor.device_id)
    served = ModelServer(model, rendezvous.rank, tensors, progress, spec.device == "cpu")
    if job.warm:
        served.warm_up(job.samples)
    return served


def _register(tensors: TensorArena, device_id: int) -> None:
    """Let the GPU read inputs and write results where requests have them."""
    from ...comm.sharing.cuda_pages import CudaPages  # of ranks on GPUs
    from ...comm.sharing.gpu import Gpu

    try:
        gpu = Gpu(device_id)
    except UsageError:  # without cuda-python tensors go through memory of torch
        return
    tensors.register(CudaPages(gpu))


def _opened(job: ServeJob, spec: ProgramSpec, rendezvous: Rendezvous) -> RankModel:
    """The program of a shard, or a whole model with strings, of which no program can be made."""
    use_collectives(rendezvous, spec.executor, job.collectives)
    try:
        model = SwappableProgram.open(spec, rendezvous, TensorArena(job.updates), job.stage)
    except ModelError:
        found = open_string_model(spec) if rendezvous.rank.world_size == 1 else None
        if found is None:
            raise
        rendezvous.enter(Stage.READY)
        return found
    if job.first:
        model.program.wait_until_kept()
    return model


def spec_of(job: ServeJob, rank: Rank) -> ProgramSpec:
    """The program that a rank of an orchestrator is to serve."""
    device = job.device or best_device()
    number = claim_gpu(rank.device) if device == "gpu" else rank.device
    return ProgramSpec(
        Shards(job.pattern, job.count).path(rank.rank),
        ExecutorSettings(
            device, number, job.threads, job.spin, name=executor_name() or job.executor
        ),
        PrecisionSettings.named(job.precision_mode, job.execution_plan, device),
        served_cache(job.cache) if device == "cpu" else None,
        decryption_from_environment(os.environ, "AES-GCM"),
        allow_equal_shards=job.allow_equal_shards,
        same_inputs=True,
    )
