"""LiteInfer: exports a MindSpore network that is in memory, and runs it as any model."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from ...comm.errors import RankmeshError
from ..api_types.arguments import check_type
from ..api_types.context import Context
from ..api_types.tensor import Tensor
from .model import Model, ModelType
from .model_group import ModelGroup, ModelGroupFlag

_GROUPS: WeakValueDictionary[int, ModelGroup] = WeakValueDictionary()


class LiteInfer:
    """A network of the `mindspore` package, which must be installed, ready to predict.

    `model_or_net` is a mindspore.train.Model or an nn.Cell, `net_inputs` are mindspore tensors of
    the shapes and types that it is to take. `config` are sections as Model.build_from_file has
    them, and `configPath` an .ini file's path. Networks with one `model_group_id` are a ModelGroup
    that shares weights. Raises ImportError without mindspore, ValueError for another kind of
    network, TypeError, and RuntimeError as exporting and building do.
    """

    def __init__(
        self,
        model_or_net: Any,
        *net_inputs: Any,
        context: Context | None = None,
        model_group_id: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        mindspore = _mindspore()
        net = _network(mindspore, model_or_net)
        if context is not None:
            check_type("context", context, Context)
        if config is not None:
            check_type("config", config, dict)
        sections = dict(config or {})
        ini = sections.pop("configPath", "")
        self._folder = TemporaryDirectory(
            prefix="rankmesh-lite-infer-"
        )  # a resize may read the model again
        self._model = Model()
        if model_group_id is not None:
            check_type("model_group_id", model_group_id, int)
            self._group = _GROUPS.setdefault(
                model_group_id, ModelGroup(ModelGroupFlag.SHARE_WEIGHT)
            )
            self._group.add_model([self._model])
        self._model.build_from_file(
            self._export(mindspore, net, net_inputs), ModelType.MINDIR, context, ini, sections
        )

    def get_inputs(self) -> list[Tensor]:
        """See Model.get_inputs."""
        return self._model.get_inputs()

    def get_outputs(self) -> Sequence[Tensor]:
        """See Model.get_outputs."""
        return self._model.get_outputs()

    def predict(self, inputs: Sequence[Tensor | NDArray[Any]]) -> list[Tensor]:
        """See Model.predict."""
        return self._model.predict(inputs)

    def resize(self, inputs: Sequence[Tensor], dims: Sequence[Sequence[int]]) -> None:
        """See Model.resize."""
        self._model.resize(inputs, dims)

    def _export(self, mindspore: Any, net: Any, net_inputs: Sequence[Any]) -> str:
        stem = os.path.join(self._folder.name, "network")
        try:
            mindspore.export(net, *net_inputs, file_name=stem, file_format="MINDIR")
        except Exception as error:  # mindspore raises whatever its compiler does
            raise RankmeshError(
                f"LiteInfer: mindspore cannot export {type(net).__name__} for {len(net_inputs)} "
                f"inputs: {type(error).__name__}: {error}"
            ) from error
        return f"{stem}.mindir"


def _mindspore() -> Any:
    try:
        return importlib.import_module("mindspore")
    except Exception as error:  # a damaged installation fails in any way
        raise ImportError(
            f"For 'LiteInfer', import mindspore fail. ({error}) Install mindspore, or export the "
            f"network where it is installed and use Model.build_from_file."
        ) from error


def _network(mindspore: Any, model_or_net: Any) -> Any:
    if isinstance(model_or_net, mindspore.train.Model):
        return model_or_net.predict_network
    if isinstance(model_or_net, mindspore.nn.Cell):
        return model_or_net
    raise ValueError(
        f"For LiteInfer, input model_or_net is not ms.train.Model or nn.Cell, but "
        f"{type(model_or_net)}."
    )
