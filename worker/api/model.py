"""Model: one model file, built once and run many times."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, RankmeshError, UsageError
from ...compiler.model_file.config import Config, Sections
from ..api_types.arguments import check_elements, check_sequence, check_type
from ..api_types.context import Context
from ..api_types.tensor import OutputTensor, Tensor
from ..session.group_share import GroupShare, share_of
from ..session.request_tensors import fill_outputs
from .calls import (
    check_decryption,
    check_exists,
    configured,
    decryption_of,
    failing,
    harmless_cause,
    prefix_error,
    wrap_library_error,
)

if TYPE_CHECKING:
    from ...compiler.mindir.crypto import Decryption
    from ..session.session import Session
    from ..weights.live_source import LiveWeights
    from ..weights.weight_owner import WeightOwner


class ModelType(Enum):
    """The kind of a model file, as scripts name it; what counts is the file's content."""

    MINDIR = 0
    MINDIR_LITE = 4


class Model:
    """One rank's model, built once and run many times. Several threads may use it; they take turns.

    `build_from_file` loads it, `predict` runs it; `resize` changes its input shapes,
    `update_weights` and `load_weights` its weights.
    """

    def __init__(self) -> None:
        self._path = ""
        self._config = Config()
        self._session: Session | None = None
        self._share: GroupShare | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"model_path: {self._path}."

    def __repr__(self) -> str:
        return f"Model({self._path!r})" if self._session else "Model()"

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
        """Load the model and prepare it, together with the other ranks of the job.

        `config_path` is an .ini file, `config_dict` overrides it key by key. `dec_key` has the raw
        bytes of an encrypted model's key; by default those in RANKMESH_KEY (hex). With a key,
        models that are not encrypted or have no tags are refused, unless
        RANKMESH_ALLOW_UNAUTHENTICATED=1. `dec_num_parallel` (0 to 64) is accepted: one thread
        decrypts. Raises TypeError, ValueError, and RuntimeError (its subclasses in comm/errors.py).
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
        with failing("build_from_file"):
            decryption = decryption_of(dec_key, dec_mode, dec_num_parallel)
            self._open(config, context, decryption).spread_live_weights()

    def _open(self, config: Config, context: Context, decryption: Decryption | None) -> Session:
        from ..session.session import Session  # here: a process that asks for its pid stays light

        with self._lock:
            if self._session is not None:
                raise UsageError(
                    "Model has been called Build: make another Model to load another file."
                )
            share = self._share or share_of(self._path)
            self._session = Session(self._path, context, config, decryption, share)
            self._share = share
            self._config = config
            return self._session

    def get_inputs(self) -> list[Tensor]:
        """The inputs in order, as Tensors without data; [] before the model is built."""
        return [Tensor.of_slot(slot) for slot in self._session.inputs] if self._session else []

    def get_outputs(self) -> list[OutputTensor]:
        """The outputs in order, -1 where only a resize or the data tell; [] before the model is
        built.
        """
        return self._session.outputs if self._session else []

    def get_input_by_tensor_name(self, tensor_name: str) -> Tensor:
        """The input of that name, as older scripts ask for it."""
        return _named("get_input_by_tensor_name", tensor_name, self.get_inputs())

    def get_output_by_tensor_name(self, tensor_name: str) -> Tensor:
        """The output of that name, as older scripts ask for it."""
        return _named("get_output_by_tensor_name", tensor_name, self.get_outputs())

    def predict(
        self, inputs: Sequence[Tensor | Array], outputs: list[Tensor] | None = None
    ) -> list[Tensor]:
        """Run the model on `inputs`: Tensors or arrays, in the model's order and dtypes.

        The results go into the tensors of `outputs`, or into new ones, which fill an empty list.
        Raises TypeError, InputError where an input does not fit, and RuntimeError (its subclasses
        in comm/errors.py).
        """
        check_sequence("inputs", inputs)
        check_elements("inputs", inputs, (Tensor, np.ndarray), "Tensor")
        if outputs is not None:
            check_type("outputs", outputs, list)
            check_elements("outputs", outputs, Tensor)
        try:
            expected = len(self._session.inputs) if self._session else 0
            least = self._session.least_inputs if self._session else 0
            if not least <= len(inputs) <= expected:
                raise InputError(
                    f"model input len:{expected} not equal input len:{len(inputs)}!{self._reason()}"
                )
            session = self._built()
            return fill_outputs(session.plan.outputs, session.run(inputs), outputs)
        except RankmeshError as error:  # as `failing`, which would cost a request more
            prefix_error("predict", error)
            raise
        except Exception as error:
            raise wrap_library_error("predict", error) from harmless_cause(error)

    def resize(self, inputs: Sequence[Tensor], dims: Sequence[Sequence[int]]) -> None:
        """Give the inputs new shapes, in order. A model without dynamic dimensions is built anew
        for them.
        """
        check_sequence("inputs", inputs)
        check_elements("inputs", inputs, Tensor)
        check_sequence("dims", dims)
        check_elements("dims", dims, (list, tuple), "list or tuple")
        for element in dims:
            check_elements("dims element's", element, int)
        if len(inputs) != len(dims):
            raise ValueError(
                f"inputs' size does not match dims' size: {len(inputs)} and {len(dims)}."
            )
        with failing("resize"):
            self._built().resize(
                [tuple(map(int, element)) for element in dims]
            )  # a bool is an int, not to onnx

    def update_weights(self, weights: list[list[Tensor]]) -> None:
        """Replace weights: `[[tensor, ...], ...]`, successive updates of tensors that have the
        weights' names.

        Names are the parameters' own, or those that MindSpore Lite derives nodes from. Requests
        that begin afterwards see all of it, those before nothing; so do those of other models of a
        ModelGroup that share these weights. With variable_weights_mode=delta the tensors are added
        to the exported weights. Of several ranks all call this, and they use the new weights once
        all have them. Raises TypeError; InputError, after which nothing has changed, where a name,
        shape or dtype is wrong.
        """
        from ..weights.updates.new_values import check_weights, weights_of_tensors

        check_weights(weights)
        with failing("update weight"):
            owner = weight_owner(self)
            owner.update(weights_of_tensors(weights, owner.names), owner.delta)

    def load_weights(
        self, path: str, layout: Mapping[str, int] | None = None, delta: bool | None = None
    ) -> None:
        """Replace weights by those in a .safetensors, .npz, .mindir or .ms file, all or some; as
        update_weights.

        `{rank}` in `path` stands for this rank's number. Of a file with full weights each rank
        takes its part along the axis that `layout` gives for a name or a pattern of names
        (`{"*.fc1.weight": 0}`).
        """
        check_type("path", path, str)
        with failing("load_weights"):
            from ..weights.updates.new_values import weights_from

            owner = weight_owner(self)
            owner.update(
                weights_from(path, owner.names, owner.rank, layout),
                owner.delta if delta is None else delta,
            )

    def rollback(self) -> None:
        """Go back to the weights before the last update; UsageError where they are not there any
        more.
        """
        with failing("rollback"):
            weight_owner(self).rollback()

    def get_model_info(self, key: str | None = None) -> str:
        """A fact about the built model as text, "" where it is unknown.

        Keys: current_pid, user_info (JSON), input_shape, dynamic_dims, shareable_weight_mem_handle
        (of an owner), weights_version (the number of updates in effect), weights_mode (live, packed
        or private: docs/weights.md). Raises TypeError for a key that is not a str.
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
            return self._config.input_shape or ";".join(
                f"{slot.name}:{slot.shape}" for slot in self._session.inputs
            )
        return self._config.dynamic_dims if key == "dynamic_dims" else ""

    def _built(self) -> Session:
        if self._session is None:
            raise UsageError(self._reason().strip())
        return self._session

    def _reason(self) -> str:
        return "" if self._session else " The model is not built: call build_from_file first."


def join_group(models: Sequence[Model], share: GroupShare) -> None:
    """Have `models` built as members of a group; UsageError where one of them cannot join it."""
    for model in models:
        if model._share or model._session:
            state = "is in a group" if model._share else f"was built from {model._path}"
            raise UsageError(
                f"A model {state} already: add models to one group, before they are built."
            )
    for model in models:
        model._share = share


def weight_owner(model: Model) -> WeightOwner:
    """The weights of a model in memory of this process, which may change and share them.

    Raises UsageError where the model is not built, or its weights are another process's.
    """
    if model._session is None:
        raise UsageError("Session is null, please build model first! Call build_from_file before.")
    return model._session.owner()


def _weights_info(key: str, weights: LiveWeights | None) -> str:
    if key == "weights_version":
        return str(weights.version if weights else 0)
    return str(weights.handle or "") if weights else ""


def _named(what: str, tensor_name: str, tensors: Sequence[Tensor]) -> Tensor:
    check_type("tensor_name", tensor_name, str)
    for tensor in tensors:
        if tensor.name == tensor_name:
            return tensor
    raise InputError(
        f"{what} failed! There is no '{tensor_name}' among {[t.name for t in tensors]}."
    )
