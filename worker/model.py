"""The Model of the API: one model file, built once, run many times."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comm.arguments import check_elements, check_sequence, check_type
from ..comm.config import Config, Sections
from ..comm.context import Context
from ..comm.errors import InputError, RankmeshError, UsageError
from ..comm.tensor import OutputTensor, Tensor
from .build_arguments import check_decryption, check_exists, configured, decryption_of
from .failing import as_ours, failing, harmless, say
from .group_share import GroupShare, share_of
from .results import handed_out

if TYPE_CHECKING:
    from .session import Session
    from .weights.live_weights import LiveWeights
    from .weights.owner import Owner

Array = NDArray[Any]


class ModelType(Enum):
    """The kind of a model file, as scripts name it; what counts is the file's content."""

    MINDIR = 0
    MINDIR_LITE = 4


class Model:
    """One rank's model. Several threads may use it; they take turns."""

    def __init__(self) -> None:
        self._path = ""
        self._config = Config()
        self._session: Session | None = None
        self._share: GroupShare | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"model_path: {self._path}."

    def build_from_file(
        self,
        model_path: str,
        model_type: ModelType,
        context: Context | None = None,
        config_path: str = "",
        config_dict: Sections | None = None,
        dec_key: bytes | None = None,
        dec_mode: str = "AES-GCM",
        dec_num_parallel: int = 0,
    ) -> None:
        """Load the model and make it ready, together with the other ranks where there are any.

        `config_path` is an .ini file, `config_dict` overrides it key by key. `dec_key` are the raw bytes of an
        encrypted model's key, by default those in RANKMESH_KEY (hex). With a key, models that are not encrypted or have
        no tags are refused, unless RANKMESH_ALLOW_UNAUTHENTICATED=1. `dec_num_parallel` (0 to 64) is accepted: one
        thread decrypts. Raises TypeError, ValueError, and RuntimeError (its subclasses in comm/errors.py).
        """
        check_type("model_path", model_path, str)
        check_type("model_type", model_type, ModelType)
        context = Context() if context is None else context
        check_type("context", context, Context)
        check_type("config_path", config_path, str)
        check_exists(model_path, config_path)
        config = configured(config_path, config_dict)
        if dec_key is not None:
            check_decryption(dec_key, dec_mode, dec_num_parallel)
        self._path = model_path
        share = self._share or share_of(model_path)
        if share:
            share.enter(self)
        with self._lock, failing("build_from_file"):
            if self._session is not None:
                raise UsageError("Model has been called Build: make another Model to load another file.")
            from .session import Session  # here: a process that only asks for its pid stays light

            decryption = decryption_of(dec_key, dec_mode, dec_num_parallel)
            self._session, self._config = Session(model_path, context, config, decryption, share), config
        if share:
            self._share = share
            share.built.add(model_path)
            with failing("build_from_file"):
                share.spread(self)

    def require_free(self) -> None:
        """UsageError unless this model may still join a group."""
        if self._share or self._session:
            state = "is in a group" if self._share else f"was built from {self._path}"
            raise UsageError(f"A model {state} already: add models to one group, before they are built.")

    def join(self, share: GroupShare) -> None:
        """Be built and run as a group's model, which `share` stands for."""
        self._share = share

    def follow_group(self) -> None:
        """Have live weights, if it is built and its group has them; raises as a build does."""
        session = self._session
        if session is not None and session.lags:
            with self._lock:
                session.make_live()

    def get_inputs(self) -> list[Tensor]:
        """The inputs in order, without data; [] before the model is built."""
        return [Tensor.of_slot(slot) for slot in self._session.inputs] if self._session else []

    def get_outputs(self) -> list[OutputTensor]:
        """The outputs in order, -1 where only a resize or the data tell; [] before the model is built."""
        return self._session.outputs if self._session else []

    def get_input_by_tensor_name(self, tensor_name: str) -> Tensor:
        """The input of that name, as older scripts ask for it."""
        return _named("get_input_by_tensor_name", tensor_name, self.get_inputs())

    def get_output_by_tensor_name(self, tensor_name: str) -> Tensor:
        """The output of that name, as older scripts ask for it."""
        return _named("get_output_by_tensor_name", tensor_name, self.get_outputs())

    def predict(self, inputs: Sequence[Tensor | Array], outputs: list[Tensor] | None = None) -> list[Tensor]:
        """Run the model. The results go into the tensors of `outputs` if there are any; an empty list is filled."""
        check_sequence("inputs", inputs)
        check_elements("inputs", inputs, (Tensor, np.ndarray), "Tensor")
        if outputs is not None:
            check_type("outputs", outputs, list)
            check_elements("outputs", outputs, Tensor)
        with self._lock:
            try:
                expected = len(self._session.inputs) if self._session else 0
                if len(inputs) != expected:
                    raise InputError(f"model input len:{expected} not equal input len:{len(inputs)}!{self._reason()}")
                return handed_out(self._built().run(inputs), outputs)
            except RankmeshError as error:  # as `failing`, which would cost a request more than it may
                say("predict", error)
                raise
            except Exception as error:
                raise as_ours("predict", error) from harmless(error)

    def resize(self, inputs: Sequence[Tensor], dims: Sequence[Sequence[int]]) -> None:
        """Give the inputs new shapes, in order. A model without dynamic dimensions is built anew for them."""
        check_sequence("inputs", inputs)
        check_elements("inputs", inputs, Tensor)
        check_sequence("dims", dims)
        check_elements("dims", dims, (list, tuple), "list or tuple")
        for element in dims:
            check_elements("dims element's", element, int)
        if len(inputs) != len(dims):
            raise ValueError(f"inputs' size does not match dims' size: {len(inputs)} and {len(dims)}.")
        with self._lock, failing("resize"):
            self._built().resize([tuple(map(int, element)) for element in dims])  # a bool is an int, not to onnx

    def update_weights(self, weights: list[list[Tensor]]) -> None:
        """Replace weights: `[[tensor, ...], ...]`, successive updates of tensors that have the weights' names.

        Names are the parameters' own, or those that MindSpore Lite derives nodes from. Requests that begin afterwards
        see all of it, those before nothing; so do those of other models of a ModelGroup that share these weights. With
        variable_weights_mode=delta the tensors are added to the exported weights. Of several ranks all call this, and
        they use the new weights once all have them.
        Raises TypeError; InputError, after which nothing has changed, where a name, shape or dtype is wrong.
        """
        from .weights.tensors import check_weights, weights_of_tensors

        check_weights(weights)
        with failing("update weight"):
            owner = self._owner()
            owner.update(weights_of_tensors(weights, owner.names), owner.delta)

    def load_weights(self, path: str, layout: Mapping[str, int] | None = None, delta: bool | None = None) -> None:
        """Replace weights by those in a .safetensors, .npz or .mindir file, all or some; as update_weights.

        `{rank}` in `path` stands for this rank's number. Of a file with full weights each rank takes its part along
        the axis that `layout` gives for a name or a pattern of names (`{"*.fc1.weight": 0}`).
        """
        check_type("path", path, str)
        with failing("load_weights"):
            from .weights.loading import weights_from

            owner = self._owner()
            owner.update(weights_from(path, owner, layout), owner.delta if delta is None else delta)

    def rollback(self) -> None:
        """Go back to the weights before the last update; UsageError where they are not there any more."""
        with failing("rollback"):
            self._owner().rollback()

    def get_model_info(self, key: str | None = None) -> str:
        """What is known under `key`, else an empty text.

        Keys: current_pid, user_info (JSON), input_shape, dynamic_dims, shareable_weight_mem_handle (of an owner),
        weights_version (how many updates are in effect), weights_mode (live, packed or private: docs/weights.md).
        """
        check_type("key", key, str)
        if key == "current_pid":
            return str(os.getpid())
        if self._session is None:
            return ""
        if key == "user_info":
            info = self._session.user_info
            return json.dumps(info, ensure_ascii=False, sort_keys=True) if info else ""
        if key in ("shareable_weight_mem_handle", "weights_version"):
            return _weights_info(key, self._session.weights)
        if key == "weights_mode":
            return self._session.weights_mode
        if key == "input_shape":
            return self._config.input_shape or ";".join(f"{slot.name}:{slot.shape}" for slot in self._session.inputs)
        return self._config.dynamic_dims if key == "dynamic_dims" else ""

    def _owner(self) -> Owner:
        """The weights of this model, in memory of this process, which may change them."""
        from .weights.owner import Owner

        session = self._session
        if session is None:
            raise UsageError("Session is null, please build model first! Call build_from_file before.")
        if session.weights is None or not session.weights.opened:
            with self._lock:
                session.make_live()
        if self._share:
            self._share.spread(self)
        if not isinstance(session.weights, Owner):
            raise UsageError("these weights belong to another process, and only their owner updates them: update them "
                             "there, and this model uses them from its next predict on.")
        return session.weights

    def _built(self) -> Session:
        if self._session is None:
            raise UsageError(self._reason().strip())
        return self._session

    def _reason(self) -> str:
        return "" if self._session else " The model is not built: call build_from_file first."


def _weights_info(key: str, weights: LiveWeights | None) -> str:
    if key == "weights_version":
        return str(weights.version if weights else 0)
    sharing = getattr(weights, "sharing", None)
    return str(sharing.handle) if sharing else ""


def _named(what: str, tensor_name: str, tensors: Sequence[Tensor]) -> Tensor:
    check_type("tensor_name", tensor_name, str)
    for tensor in tensors:
        if tensor.name == tensor_name:
            return tensor
    raise InputError(f"{what} failed! There is no '{tensor_name}' among {[t.name for t in tensors]}.")
