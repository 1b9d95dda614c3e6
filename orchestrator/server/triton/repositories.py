"""Repositories: folders of models in Triton's layout, read at the start and at each change."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from ....comm.errors import UsageError
from ...config.settings import ServedSettings
from .ensembles import ensemble_versions
from .model_folder import ModelFolder
from .translation import onnx_versions

_LOG = logging.getLogger("rankmesh.server")
_MOST_FAULTS = 10


class ModelRepositories:
    """One or more repositories. Their models are what the folders have at the time of each call."""

    def __init__(self, paths: Sequence[str], may_be_empty: bool = False) -> None:
        """`paths` of the repositories; each has a folder for each of its models. There may be none
        where clients can load models later: `may_be_empty`.
        """
        self._paths = paths
        self._may_be_empty = may_be_empty
        self._said: set[str] = set()

    def models(self) -> tuple[ServedSettings, ...]:
        """All versions of all models. Raises UsageError with all faults."""
        found: list[ServedSettings] = []
        faults = []
        for path in self._folders().values():
            try:
                found += self._read(path)
            except UsageError as fault:
                faults.append(str(fault))
        if faults:
            more = [f"and {len(faults) - _MOST_FAULTS} more."] if len(faults) > _MOST_FAULTS else []
            raise UsageError("\n".join([*faults[:_MOST_FAULTS], *more]))
        if not found and not self._may_be_empty:
            raise UsageError(
                f"{', '.join(self._paths)}: has no models: expected a folder for each, such as "
                "MODEL/1/model.onnx, or --management, by which clients load models later."
            )
        return tuple(found)

    def model(self, name: str) -> tuple[ServedSettings, ...]:
        """All versions of one model; none where no repository has it. Raises UsageError."""
        path = self._folders().get(name)
        return () if path is None else tuple(self._read(path))

    def _folders(self) -> dict[str, str]:
        """The folders of all models, by name."""
        found: dict[str, str] = {}
        for repository in self._paths:
            try:
                entries = sorted(one.path for one in os.scandir(repository) if one.is_dir())
            except OSError as error:
                raise UsageError(f"{repository}: cannot be read: {error.strerror}.") from None
            for path in entries:
                name = os.path.basename(path)
                if name.startswith("."):
                    continue
                if name in found:
                    raise UsageError(
                        f"the model '{name}' is in two repositories: {found[name]} and {path}."
                    )
                found[name] = path
        return found

    def _read(self, path: str) -> Sequence[ServedSettings]:
        folder = ModelFolder.read(path)
        versions: Sequence[ServedSettings]
        if folder.is_ensemble:
            versions, unused = ensemble_versions(folder)
        else:
            versions, unused = onnx_versions(folder)
        text = f"model '{folder.name}': without a meaning here: {', '.join(unused)}"
        if unused and text not in self._said:
            self._said.add(text)
            _LOG.warning("%s", text)
        return versions
