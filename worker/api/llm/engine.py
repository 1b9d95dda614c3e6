"""LLM engine: takes models, checks arguments, and names the hardware that running them needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from ....comm.errors import UsageError
from ...api_types.arguments import check_type
from ...api_types.tensor import Tensor
from .request import LLMClusterInfo, LLMReq, LLMRole, check_uint64

_MODES = ("auto", "manual")
_NOT_READY = "LLMEngine is not inited or init failed"


class LLMEngineStatus:
    """How full an engine is; `status` has the numbers."""

    def __init__(self, status: Any) -> None:
        self._status = status

    @property
    def empty_max_prompt_kv(self) -> int:
        """How many more prompts' KV caches there is room for."""
        return int(self._status.empty_max_prompt_kv)

    @property
    def num_free_blocks(self) -> int:
        """The free blocks of the paged KV cache."""
        return int(self._status.num_free_blocks)

    @property
    def num_total_blocks(self) -> int:
        """All blocks of the paged KV cache."""
        return int(self._status.num_total_blocks)

    @property
    def block_size(self) -> int:
        """The tokens in a block."""
        return int(self._status.block_size)


class LLMModel:
    """A model of an engine, made by LLMEngine.add_model. It runs once the engine is ready, which
    needs Ascend.
    """

    def predict(self, llm_req: LLMReq | Sequence[LLMReq], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run a request."""
        _refuse()

    def pull_kv(self, llm_req: LLMReq) -> None:
        """Fetch the request's KV cache from the prompt cluster."""
        _refuse()

    def merge_kv(self, llm_req: LLMReq, batch_index: int, batch_id: int = 0) -> None:
        """Put the request's KV cache into a slot of a batch."""
        _refuse()

    def preload_prompt_prefix(self, llm_req: LLMReq, inputs: Sequence[Tensor]) -> None:
        """Compute a prefix that many prompts share."""
        _refuse()

    def release_prompt_prefix(self, llm_req: LLMReq) -> None:
        """Free such a prefix."""
        _refuse()

    def get_inputs(self) -> list[Tensor]:
        """The model's inputs."""
        _refuse()


class LLMEngine:
    """One side of distributed text generation: prompts or decoding. `init` needs Ascend devices and
    fails elsewhere.
    """

    def __init__(self, role: LLMRole, cluster_id: int, batch_mode: str = "auto") -> None:
        check_type("role", role, LLMRole)
        check_uint64("cluster_id", cluster_id)
        check_type("batch_mode", batch_mode, str)
        if batch_mode not in _MODES:
            raise ValueError(f'batch_mode should be str "auto" or "manual", but got {batch_mode}')
        self._role = role
        self._cluster_id = cluster_id
        self._batch_mode = batch_mode
        self._models: list[LLMModel] = []

    @property
    def cluster_id(self) -> int:
        """The number of this engine's cluster."""
        return self._cluster_id

    @property
    def role(self) -> LLMRole:
        """The part of the work that this engine does: prompts or decoding."""
        return self._role

    @property
    def batch_mode(self) -> str:
        """The former of batches: the engine ("auto") or the caller ("manual")."""
        return self._batch_mode

    def add_model(
        self,
        model_paths: Sequence[str],
        options: dict[str, str],
        postprocess_model_path: str | None = None,
    ) -> LLMModel:
        """Add a model, one file per device. TypeError; RuntimeError where a file is missing."""
        _check_paths(model_paths)
        _check_options(options)
        if postprocess_model_path is not None:
            if not isinstance(postprocess_model_path, str):
                raise TypeError(
                    f"postprocess_model_path must be None or str, but got "
                    f"{type(postprocess_model_path)}."
                )
            _require("postprocess_model_path", postprocess_model_path)
        self._models.append(LLMModel())
        return self._models[-1]

    def init(self, options: dict[str, str]) -> None:
        """Make the models ready: UsageError, as this needs Ascend devices."""
        if not self._models:
            raise UsageError(
                "At least one group of models need to be added through LLMEngine.add_model before "
                "call LLMEngine.init."
            )
        _check_options(options)
        raise UsageError(
            f"Failed to init LLMEngine, role {self._role.name}, cluster id {self._cluster_id}, "
            f"options {options}: the LLM engine needs Ascend devices and their runtime, which "
            f"moves KV caches between clusters. Elsewhere, run the model's steps with "
            f"Model.predict."
        )

    def complete_request(self, llm_req: LLMReq) -> None:
        """Free what the engine holds for a request."""
        _refuse()

    def finalize(self) -> None:
        """End the engine; one that never was ready is told so, as scripts call this at their end
        anyway.
        """
        print(_NOT_READY, flush=True)

    def fetch_status(self) -> LLMEngineStatus:
        """How full the engine is."""
        _refuse()

    def link_clusters(
        self, clusters: Sequence[LLMClusterInfo], timeout: int = -1
    ) -> tuple[Any, tuple[Any, ...]]:
        """Connect with other clusters."""
        _refuse()

    def unlink_clusters(
        self, clusters: Sequence[LLMClusterInfo], timeout: int = -1
    ) -> tuple[Any, tuple[Any, ...]]:
        """Let go of other clusters."""
        _refuse()


def _refuse() -> NoReturn:
    raise UsageError(f"{_NOT_READY}: call LLMEngine.init first, on a machine with Ascend devices.")


def _check_paths(model_paths: Any) -> None:
    if not isinstance(model_paths, (list, tuple)):
        raise TypeError(f"model_paths must be tuple/list of str, but got {type(model_paths)}.")
    for index, path in enumerate(model_paths):
        if not isinstance(path, str):
            raise TypeError(
                f"model_paths element must be str, but got {type(path)} at index {index}."
            )
        _require("model_paths", path, f" at index {index}")


def _require(name: str, path: str, where: str = "") -> None:
    if not os.path.exists(path):
        raise UsageError(f"{name} {path}{where} does not exist!")


def _check_options(options: Any) -> None:
    check_type("options", options, dict)
    for key, value in options.items():
        check_type("options key", key, str)
        check_type("options value", value, str)
