"""Rankmesh: distributed inference with one process per rank. Public names are imported on first use."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankmesh.comm.context import Context as Context
    from rankmesh.comm.data_type import DataType as DataType
    from rankmesh.comm.data_type import Format as Format
    from rankmesh.comm.device_info import AscendDeviceInfo as AscendDeviceInfo
    from rankmesh.comm.device_info import CPUDeviceInfo as CPUDeviceInfo
    from rankmesh.comm.device_info import DeviceInfo as DeviceInfo
    from rankmesh.comm.device_info import GPUDeviceInfo as GPUDeviceInfo
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
    from rankmesh.comm.json_lines import JsonLogFormatter as JsonLogFormatter
    from rankmesh.comm.rank import Rank as Rank
    from rankmesh.comm.runner_config import RunnerConfig as RunnerConfig
    from rankmesh.comm.tensor import Tensor as Tensor
    from rankmesh.comm.tensor_meta import TensorMeta as TensorMeta
    from rankmesh.orchestrator.data_parallel import DataParallel as DataParallel
    from rankmesh.orchestrator.orchestrator import Orchestrator as Orchestrator
    from rankmesh.orchestrator.settings import BatchingSettings as BatchingSettings
    from rankmesh.rank_tables.fault import RankTableFault as RankTableFault
    from rankmesh.rank_tables.table import RankTable as RankTable
    from rankmesh.worker.converter import Converter as Converter
    from rankmesh.worker.converter import FmkType as FmkType
    from rankmesh.worker.lite_infer import LiteInfer as LiteInfer
    from rankmesh.worker.llm.cluster import LLMClusterInfo as LLMClusterInfo
    from rankmesh.worker.llm.cluster import LLMRole as LLMRole
    from rankmesh.worker.llm.engine import LLMEngine as LLMEngine
    from rankmesh.worker.llm.engine import LLMEngineStatus as LLMEngineStatus
    from rankmesh.worker.llm.errors import LLMEngineFinalized as LLMEngineFinalized
    from rankmesh.worker.llm.errors import LLMException as LLMException
    from rankmesh.worker.llm.errors import LLMKVCacheNotExist as LLMKVCacheNotExist
    from rankmesh.worker.llm.errors import LLMNotYetLink as LLMNotYetLink
    from rankmesh.worker.llm.errors import LLMParamInvalid as LLMParamInvalid
    from rankmesh.worker.llm.errors import LLMRepeatRequest as LLMRepeatRequest
    from rankmesh.worker.llm.errors import LLMRequestAlreadyCompleted as LLMRequestAlreadyCompleted
    from rankmesh.worker.llm.errors import LLMStatusCode as LLMStatusCode
    from rankmesh.worker.llm.errors import LLMWaitProcessTimeOut as LLMWaitProcessTimeOut
    from rankmesh.worker.llm.request import LLMReq as LLMReq
    from rankmesh.worker.model import Model as Model
    from rankmesh.worker.model import ModelType as ModelType
    from rankmesh.worker.model_group import ModelGroup as ModelGroup
    from rankmesh.worker.model_group import ModelGroupFlag as ModelGroupFlag
    from rankmesh.worker.runner import ModelParallelRunner as ModelParallelRunner
    from rankmesh.worker.weights.manager import WeightManager as WeightManager

if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
    raise ImportError(f"Rankmesh runs on Linux (x86-64 and aarch64); this Python runs on {sys.platform}.")

__version__ = "0.1.0"

# Before anything imports onnxruntime, which would write a device id into the home folder and start a thread to send it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if os.environ.get("RANKMESH_CLOSED", "0") not in ("", "0"):
    importlib.import_module("rankmesh.comm.sharing.undumpable").close_to_others()

_HOME = {
    "AscendDeviceInfo": "comm.device_info",
    "BatchingSettings": "orchestrator.settings",
    "CPUDeviceInfo": "comm.device_info",
    "Closed": "comm.errors",
    "CollectiveAborted": "comm.errors",
    "CollectiveMismatch": "comm.errors",
    "CollectiveTimeout": "comm.errors",
    "Context": "comm.context",
    "Converter": "worker.converter",
    "DataParallel": "orchestrator.data_parallel",
    "DataType": "comm.data_type",
    "DeadlineExceeded": "comm.errors",
    "DeviceInfo": "comm.device_info",
    "Draining": "comm.errors",
    "FmkType": "worker.converter",
    "Format": "comm.data_type",
    "GPUDeviceInfo": "comm.device_info",
    "InputError": "comm.errors",
    "JsonLogFormatter": "comm.json_lines",
    "LLMClusterInfo": "worker.llm.cluster",
    "LLMEngine": "worker.llm.engine",
    "LLMEngineFinalized": "worker.llm.errors",
    "LLMEngineStatus": "worker.llm.engine",
    "LLMException": "worker.llm.errors",
    "LLMKVCacheNotExist": "worker.llm.errors",
    "LLMNotYetLink": "worker.llm.errors",
    "LLMParamInvalid": "worker.llm.errors",
    "LLMRepeatRequest": "worker.llm.errors",
    "LLMReq": "worker.llm.request",
    "LLMRequestAlreadyCompleted": "worker.llm.errors",
    "LLMRole": "worker.llm.cluster",
    "LLMStatusCode": "worker.llm.errors",
    "LLMWaitProcessTimeOut": "worker.llm.errors",
    "LiteInfer": "worker.lite_infer",
    "Model": "worker.model",
    "ModelError": "comm.errors",
    "ModelGroup": "worker.model_group",
    "ModelGroupFlag": "worker.model_group",
    "ModelParallelRunner": "worker.runner",
    "ModelType": "worker.model",
    "Orchestrator": "orchestrator.orchestrator",
    "OutOfMemory": "comm.errors",
    "Poisoned": "comm.errors",
    "QueueFull": "comm.errors",
    "Rank": "comm.rank",
    "RankDied": "comm.errors",
    "RankFailed": "comm.errors",
    "RankHung": "comm.errors",
    "RankTable": "rank_tables.table",
    "RankTableFault": "rank_tables.fault",
    "RankmeshError": "comm.errors",
    "RestartBudgetExhausted": "comm.errors",
    "RunnerConfig": "comm.runner_config",
    "ShardMismatch": "comm.errors",
    "Tensor": "comm.tensor",
    "TensorMeta": "comm.tensor_meta",
    "UnsupportedPrimitives": "comm.errors",
    "UsageError": "comm.errors",
    "WeightManager": "worker.weights.manager",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'rankmesh' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"rankmesh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *_HOME})
