"""Rankmesh: distributed inference with one process per rank.

Models in this process, with the classes of MindSpore Lite:
    Model, ModelType, ModelGroup, ModelGroupFlag, ModelParallelRunner, RunnerConfig, LiteInfer,
    Converter, FmkType, Context, Tensor, TensorMeta, DataType, Format, DeviceInfo, CPUDeviceInfo,
    GPUDeviceInfo, AscendDeviceInfo, WeightManager

Models on supervised ranks:
    Orchestrator, connect, OrchestratorClient, DataParallel, OrchestratorSettings, ModelSettings,
    PythonSettings, TensorSettings, BatchingSettings, ChainSettings, StepSettings, Status,
    RankStatus, ChainStatus, StepStatus, TensorSpec, JsonLogFormatter

Servers of an orchestrator's models:
    serve (needs the extra `serve`), asgi_app

Slices of a model (needs the extra `slice`):
    plan_slices, slice_model, read_slicing_plan, SlicingPlan, SlicingReport

Ranks and rank tables:
    Rank, RankTable, RankTableFault

LLM serving, with the classes of MindSpore Lite:
    LLMEngine, LLMEngineStatus, LLMClusterInfo, LLMRole, LLMReq, LLMStatusCode

Errors, subclasses of RankmeshError:
    UsageError, InputError, ModelError, UnsupportedPrimitives, ShardMismatch, CollectiveMismatch,
    CollectiveTimeout, CollectiveAborted, RankFailed, RankDied, RankHung, RestartBudgetExhausted,
    Poisoned, QueueFull, DeadlineExceeded, OutOfMemory, Draining, Closed

Errors of the LLM engine, subclasses of LLMException:
    LLMEngineFinalized, LLMKVCacheNotExist, LLMNotYetLink, LLMParamInvalid, LLMRepeatRequest,
    LLMRequestAlreadyCompleted, LLMWaitProcessTimeOut

Torch modules that are sliced by hand (needs the extra `torch`):
    the module rankmesh.torch, with all_reduce, all_gather and others

Names are imported on first use. `help(rankmesh.Model)` and so on tell more; the commands are those
of `rankmesh --help`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankmesh.comm.errors import Closed as Closed
    from rankmesh.comm.errors import CollectiveAborted as CollectiveAborted
    from rankmesh.comm.errors import CollectiveMismatch as CollectiveMismatch
    from rankmesh.comm.errors import CollectiveTimeout as CollectiveTimeout
    from rankmesh.comm.errors import DeadlineExceeded as DeadlineExceeded
    from rankmesh.comm.errors import Draining as Draining
    from rankmesh.comm.errors import InputError as InputError
    from rankmesh.comm.errors import ModelError as ModelError
    from rankmesh.comm.errors import OutOfMemory as OutOfMemory
    from rankmesh.comm.errors import Poisoned as Poisoned
    from rankmesh.comm.errors import QueueFull as QueueFull
    from rankmesh.comm.errors import RankDied as RankDied
    from rankmesh.comm.errors import RankFailed as RankFailed
    from rankmesh.comm.errors import RankHung as RankHung
    from rankmesh.comm.errors import RankmeshError as RankmeshError
    from rankmesh.comm.errors import RestartBudgetExhausted as RestartBudgetExhausted
    from rankmesh.comm.errors import ShardMismatch as ShardMismatch
    from rankmesh.comm.errors import UnsupportedPrimitives as UnsupportedPrimitives
    from rankmesh.comm.errors import UsageError as UsageError
    from rankmesh.comm.job.rank import Rank as Rank
    from rankmesh.comm.loggers import JsonLogFormatter as JsonLogFormatter
    from rankmesh.comm.serving.tensor_spec import TensorSpec as TensorSpec
    from rankmesh.compiler.slicing.slicer import SlicingReport as SlicingReport
    from rankmesh.compiler.slicing.slicer import plan_slices as plan_slices
    from rankmesh.compiler.slicing.slicer import read_slicing_plan as read_slicing_plan
    from rankmesh.compiler.slicing.slicer import slice_model as slice_model
    from rankmesh.compiler.slicing.slicing_plan import SlicingPlan as SlicingPlan
    from rankmesh.orchestrator.config.chain_settings import ChainSettings as ChainSettings
    from rankmesh.orchestrator.config.chain_settings import StepSettings as StepSettings
    from rankmesh.orchestrator.config.generation_settings import (
        GenerationSettings as GenerationSettings,
    )
    from rankmesh.orchestrator.config.orchestrator_settings import (
        OrchestratorSettings as OrchestratorSettings,
    )
    from rankmesh.orchestrator.config.python_settings import PythonSettings as PythonSettings
    from rankmesh.orchestrator.config.python_settings import TensorSettings as TensorSettings
    from rankmesh.orchestrator.config.settings import BatchingSettings as BatchingSettings
    from rankmesh.orchestrator.config.settings import ModelSettings as ModelSettings
    from rankmesh.orchestrator.connected.client import OrchestratorClient as OrchestratorClient
    from rankmesh.orchestrator.connected.client import connect as connect
    from rankmesh.orchestrator.data_parallel import DataParallel as DataParallel
    from rankmesh.orchestrator.generation.results import Generation as Generation
    from rankmesh.orchestrator.generation.results import Piece as Piece
    from rankmesh.orchestrator.orchestrator import Orchestrator as Orchestrator
    from rankmesh.orchestrator.replica.rank_status import ChainStatus as ChainStatus
    from rankmesh.orchestrator.replica.rank_status import RankStatus as RankStatus
    from rankmesh.orchestrator.replica.rank_status import Status as Status
    from rankmesh.orchestrator.replica.rank_status import StepStatus as StepStatus
    from rankmesh.orchestrator.server.lifecycle.serve import serve as serve
    from rankmesh.orchestrator.server.rest.asgi import asgi_app as asgi_app
    from rankmesh.rank_tables.fault import RankTableFault as RankTableFault
    from rankmesh.rank_tables.table import RankTable as RankTable
    from rankmesh.worker.api.converter import Converter as Converter
    from rankmesh.worker.api.converter import FmkType as FmkType
    from rankmesh.worker.api.lite_infer import LiteInfer as LiteInfer
    from rankmesh.worker.api.llm.engine import LLMEngine as LLMEngine
    from rankmesh.worker.api.llm.engine import LLMEngineStatus as LLMEngineStatus
    from rankmesh.worker.api.llm.errors import LLMEngineFinalized as LLMEngineFinalized
    from rankmesh.worker.api.llm.errors import LLMException as LLMException
    from rankmesh.worker.api.llm.errors import LLMKVCacheNotExist as LLMKVCacheNotExist
    from rankmesh.worker.api.llm.errors import LLMNotYetLink as LLMNotYetLink
    from rankmesh.worker.api.llm.errors import LLMParamInvalid as LLMParamInvalid
    from rankmesh.worker.api.llm.errors import LLMRepeatRequest as LLMRepeatRequest
    from rankmesh.worker.api.llm.errors import (
        LLMRequestAlreadyCompleted as LLMRequestAlreadyCompleted,
    )
    from rankmesh.worker.api.llm.errors import LLMStatusCode as LLMStatusCode
    from rankmesh.worker.api.llm.errors import LLMWaitProcessTimeOut as LLMWaitProcessTimeOut
    from rankmesh.worker.api.llm.request import LLMClusterInfo as LLMClusterInfo
    from rankmesh.worker.api.llm.request import LLMReq as LLMReq
    from rankmesh.worker.api.llm.request import LLMRole as LLMRole
    from rankmesh.worker.api.model import Model as Model
    from rankmesh.worker.api.model import ModelType as ModelType
    from rankmesh.worker.api.model_group import ModelGroup as ModelGroup
    from rankmesh.worker.api.model_group import ModelGroupFlag as ModelGroupFlag
    from rankmesh.worker.api.runner import ModelParallelRunner as ModelParallelRunner
    from rankmesh.worker.api.weight_manager import WeightManager as WeightManager
    from rankmesh.worker.api_types.context import Context as Context
    from rankmesh.worker.api_types.context import RunnerConfig as RunnerConfig
    from rankmesh.worker.api_types.device_context import AscendDeviceInfo as AscendDeviceInfo
    from rankmesh.worker.api_types.device_context import CPUDeviceInfo as CPUDeviceInfo
    from rankmesh.worker.api_types.device_context import DeviceInfo as DeviceInfo
    from rankmesh.worker.api_types.device_context import GPUDeviceInfo as GPUDeviceInfo
    from rankmesh.worker.api_types.tensor import Tensor as Tensor
    from rankmesh.worker.api_types.tensor_meta import DataType as DataType
    from rankmesh.worker.api_types.tensor_meta import Format as Format
    from rankmesh.worker.api_types.tensor_meta import TensorMeta as TensorMeta
    from rankmesh.worker.public_modules import torch as torch

if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
    raise ImportError(
        f"Rankmesh runs on Linux (x86-64 and aarch64); this Python runs on {sys.platform}."
    )

__version__ = "0.1.0"

# Before anything imports onnxruntime, which would write a device id into the home folder and start
# a thread to send it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if os.environ.get("RANKMESH_CLOSED", "0") not in ("", "0"):
    importlib.import_module("rankmesh.comm.host.secrecy").close_to_others()

# The folder of the public modules, so that `import rankmesh.torch` finds its file there. A file or
# folder of that name in the root would be taken for torch itself by Python started in the root.
__path__.append(os.path.join(__path__[0], "worker", "public_modules"))
_MODULES = ("torch",)

_HOME = {
    "AscendDeviceInfo": "worker.api_types.device_context",
    "BatchingSettings": "orchestrator.config.settings",
    "CPUDeviceInfo": "worker.api_types.device_context",
    "ChainSettings": "orchestrator.config.chain_settings",
    "ChainStatus": "orchestrator.replica.rank_status",
    "Closed": "comm.errors",
    "CollectiveAborted": "comm.errors",
    "CollectiveMismatch": "comm.errors",
    "CollectiveTimeout": "comm.errors",
    "Context": "worker.api_types.context",
    "Converter": "worker.api.converter",
    "DataParallel": "orchestrator.data_parallel",
    "DataType": "worker.api_types.tensor_meta",
    "DeadlineExceeded": "comm.errors",
    "DeviceInfo": "worker.api_types.device_context",
    "Draining": "comm.errors",
    "FmkType": "worker.api.converter",
    "Format": "worker.api_types.tensor_meta",
    "GPUDeviceInfo": "worker.api_types.device_context",
    "InputError": "comm.errors",
    "JsonLogFormatter": "comm.loggers",
    "LLMClusterInfo": "worker.api.llm.request",
    "LLMEngine": "worker.api.llm.engine",
    "LLMEngineFinalized": "worker.api.llm.errors",
    "LLMEngineStatus": "worker.api.llm.engine",
    "LLMException": "worker.api.llm.errors",
    "LLMKVCacheNotExist": "worker.api.llm.errors",
    "LLMNotYetLink": "worker.api.llm.errors",
    "LLMParamInvalid": "worker.api.llm.errors",
    "LLMRepeatRequest": "worker.api.llm.errors",
    "LLMReq": "worker.api.llm.request",
    "LLMRequestAlreadyCompleted": "worker.api.llm.errors",
    "LLMRole": "worker.api.llm.request",
    "LLMStatusCode": "worker.api.llm.errors",
    "LLMWaitProcessTimeOut": "worker.api.llm.errors",
    "LiteInfer": "worker.api.lite_infer",
    "Model": "worker.api.model",
    "ModelError": "comm.errors",
    "ModelGroup": "worker.api.model_group",
    "ModelGroupFlag": "worker.api.model_group",
    "ModelParallelRunner": "worker.api.runner",
    "ModelSettings": "orchestrator.config.settings",
    "ModelType": "worker.api.model",
    "Orchestrator": "orchestrator.orchestrator",
    "OrchestratorClient": "orchestrator.connected.client",
    "OrchestratorSettings": "orchestrator.config.orchestrator_settings",
    "OutOfMemory": "comm.errors",
    "Poisoned": "comm.errors",
    "PythonSettings": "orchestrator.config.python_settings",
    "QueueFull": "comm.errors",
    "Rank": "comm.job.rank",
    "RankDied": "comm.errors",
    "RankFailed": "comm.errors",
    "RankHung": "comm.errors",
    "RankStatus": "orchestrator.replica.rank_status",
    "RankTable": "rank_tables.table",
    "RankTableFault": "rank_tables.fault",
    "RankmeshError": "comm.errors",
    "RestartBudgetExhausted": "comm.errors",
    "RunnerConfig": "worker.api_types.context",
    "ShardMismatch": "comm.errors",
    "SlicingPlan": "compiler.slicing.slicing_plan",
    "SlicingReport": "compiler.slicing.slicer",
    "Status": "orchestrator.replica.rank_status",
    "StepSettings": "orchestrator.config.chain_settings",
    "StepStatus": "orchestrator.replica.rank_status",
    "Tensor": "worker.api_types.tensor",
    "TensorMeta": "worker.api_types.tensor_meta",
    "TensorSettings": "orchestrator.config.python_settings",
    "TensorSpec": "comm.serving.tensor_spec",
    "UnsupportedPrimitives": "comm.errors",
    "UsageError": "comm.errors",
    "WeightManager": "worker.api.weight_manager",
    "asgi_app": "orchestrator.server.rest.asgi",
    "connect": "orchestrator.connected.client",
    "Generation": "orchestrator.generation.results",
    "GenerationSettings": "orchestrator.config.generation_settings",
    "Piece": "orchestrator.generation.results",
    "plan_slices": "compiler.slicing.slicer",
    "read_slicing_plan": "compiler.slicing.slicer",
    "serve": "orchestrator.server.lifecycle.serve",
    "slice_model": "compiler.slicing.slicer",
}


def __getattr__(name: str) -> object:
    """Import a public name or module when it is first used."""
    if name in _MODULES:
        return importlib.import_module(f"rankmesh.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'rankmesh' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"rankmesh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *_HOME})
