"""ModelGroup: models that share equal weights, the memory that they compute in, or both."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ...comm.errors import ModelError, UsageError
from ...comm.job.shard import find_shards
from ..api_types.arguments import check_type
from ..api_types.context import Context
from ..session.group_share import GroupShare
from .model import Model, ModelType, join_group

_ADD, _CALCULATE = (
    "ModelGroup's add model failed.",
    "ModelGroup's cal max size of workspace failed.",
)


class ModelGroupFlag(Enum):
    """The parts that the models of a group share."""

    SHARE_WEIGHT = 1
    SHARE_WORKSPACE = 2
    SHARE_WEIGHT_WORKSPACE = 3


class ModelGroup:
    """Models that are built after they were added: as objects (SHARE_WEIGHT), or as paths.

    A path counts for models that are built from exactly this text while the group lives; it belongs
    to the last group that it was added to. With a workspace in common, models of the group run one
    after the other.
    """

    def __init__(self, flags: ModelGroupFlag = ModelGroupFlag.SHARE_WORKSPACE) -> None:
        if not isinstance(flags, ModelGroupFlag):
            raise UsageError(
                f"Parameter flags should be ModelGroupFlag.SHARE_WORKSPACE or "
                f"ModelGroupFlag.SHARE_WEIGHT or ModelGroupFlag.SHARE_WEIGHT_WORKSPACE, but got "
                f"{flags!r}."
            )
        self._share = GroupShare(
            flags is not ModelGroupFlag.SHARE_WORKSPACE, flags is not ModelGroupFlag.SHARE_WEIGHT
        )
        self._paths: list[str] = []
        self._flags = flags

    def __repr__(self) -> str:
        return f"ModelGroup({self._flags}, paths={self._paths})"

    def add_model(self, models: Sequence[str] | Sequence[Model]) -> None:
        """Add models before they are built. Raises TypeError, and RuntimeError where they cannot be
        added.
        """
        if not isinstance(models, (list, tuple)):
            raise TypeError(f"models must be list/tuple, but got {type(models)}.")
        if not models:
            raise UsageError("models cannot be empty: give paths, or Model objects.")
        if all(isinstance(model, str) for model in models):
            self._add_paths([str(model) for model in models])
        elif all(isinstance(model, Model) for model in models):
            self._add_objects([model for model in models if isinstance(model, Model)])
        else:
            raise TypeError(
                f"models element must be all str or Model, but got "
                f"{[type(model) for model in models]}."
            )

    def cal_max_size_of_workspace(self, model_type: ModelType, context: Context) -> None:
        """Check that the added paths may share a workspace; call it before the models are built.

        Nothing is computed: the workspace grows to what the largest model needs when that first
        runs. Raises TypeError, and RuntimeError where there are no paths, a model was built, or the
        provider is "ge".
        """
        check_type("context", context, Context)
        check_type("model_type", model_type, ModelType)
        if not self._paths:
            raise UsageError(f"{_CALCULATE} No path was added: call add_model with paths first.")
        if context.ascend.provider == "ge":
            raise UsageError(f"{_CALCULATE} The provider 'ge' shares no workspace: leave it away.")
        if self._share.built:
            raise UsageError(
                f"{_CALCULATE} {min(self._share.built)} was built already: call this before."
            )

    def _add_paths(self, paths: list[str]) -> None:
        for path in paths:
            try:
                find_shards(path)
            except ModelError as error:
                raise ModelError(f"{_ADD} {error}") from error
        for path in paths:
            self._share.claim(path)
        self._paths += paths

    def _add_objects(self, models: list[Model]) -> None:
        if self._share.workspace:
            raise UsageError(
                f"{_ADD} Model objects share weights only: use ModelGroupFlag.SHARE_WEIGHT, or add "
                f"paths."
            )
        try:
            join_group(models, self._share)
        except UsageError as error:
            raise UsageError(f"{_ADD} {error}") from error
