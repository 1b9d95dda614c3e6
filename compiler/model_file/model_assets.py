"""Model assets: the folder of external weights, and the ranks of named groups."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...comm.errors import UsageError
from ...comm.job.group_info import read_groups

if TYPE_CHECKING:
    from .config import Config

_KEYS = (("model_file", "mindir_path"), ("weight", "weight_path"))


@dataclass(frozen=True, slots=True)
class ModelAssets:
    """The assets of a model beside its own file.

    `folder` has the external weights; "" is the model's own folder. `groups` has the ranks of named
    groups.
    """

    folder: str = ""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, group_info_file: str = "") -> ModelAssets:
        """The assets that a configuration names; UsageError where one cannot be read.

        `group_info_file` comes before the one that the configuration names.
        """
        groups = group_info_file or config.file("ascend_context", "group_info_file")
        return cls(_weights_folder(config), read_groups(groups) if groups else {})

    def __bool__(self) -> bool:
        return bool(self.folder or self.groups)


NO_ASSETS = ModelAssets()


def _weights_folder(config: Config) -> str:
    """The folder that `[model_file] mindir_path` names by a .mindir file or by itself.

    `[weight] weight_path` is the old name of this key.
    """
    for section, key in _KEYS:
        if (
            section == "weight"
            and section in config.sections
            and key not in config.sections[section]
        ):
            raise UsageError(
                f"the section [{section}] of the configuration has no {key}: name the .mindir file "
                "beside whose folder of weights these lie, or remove the section."
            )
        path = config.file(section, key)
        if not path:
            continue
        if not os.path.exists(path):
            raise UsageError(
                f"[{section}] {key} = {path}: does not exist. Name the .mindir file in whose "
                "folder the external weights lie."
            )
        return os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    return ""
