"""Model folder: one model of a repository, with its configuration and the files of its versions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ....comm.errors import UsageError
from ..grpc.protocol.model_config import ModelConfig
from .config_file import FILE_NAME, read_config

BACKEND, PLATFORM = "onnxruntime", "onnxruntime_onnx"
ENSEMBLE = "ensemble"
DEFAULT_FILE = "model.onnx"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder `MODEL` of a repository: `config` as it was written, empty where there is no
    config.pbtxt.
    """

    name: str
    path: str
    config: ModelConfig
    configured: bool

    @classmethod
    def read(cls, path: str) -> ModelFolder:
        """The folder at `path`. Raises UsageError for a malformed or contradicting config.pbtxt."""
        name = os.path.basename(path)
        config = read_config(path)
        found = cls(name, path, config or ModelConfig(), config is not None)
        if found.config.name not in ("", name):
            raise UsageError(
                f"{found.config_path}: has the name '{found.config.name}', expected '{name}', as "
                "the folder is called."
            )
        return found

    @property
    def config_path(self) -> str:
        """Where its configuration is, or would be."""
        return os.path.join(self.path, FILE_NAME)

    @property
    def is_ensemble(self) -> bool:
        """Whether its steps are other models; UsageError where it says so only half."""
        named = self.config.platform == ENSEMBLE
        if named != self.config.HasField("ensemble_scheduling"):
            got = "no ensemble_scheduling" if named else f"the platform '{self.config.platform}'"
            raise UsageError(
                f"{self.config_path}: got {got}: an ensemble has the platform '{ENSEMBLE}' and "
                "ensemble_scheduling."
            )
        return named

    def require_onnx(self) -> None:
        """Raise UsageError where the configuration wants another backend than ours."""
        config = self.config
        if config.platform not in ("", PLATFORM) or config.backend not in ("", BACKEND):
            got = f"the platform '{config.platform}'" if config.platform else "no platform"
            got += f" and the backend '{config.backend}'" if config.backend else ""
            raise UsageError(
                f"{self.config_path}: got {got}, expected '{PLATFORM}' (backend '{BACKEND}'): "
                "models of other backends cannot be served."
            )

    def require_below(self, field: str, name: str) -> None:
        """Raise UsageError where a file that a field names is outside the folder, by a link too:
        a repository from elsewhere must not have other files of the host served.
        """
        folder = os.path.realpath(self.path)
        path = name if "\0" in name else os.path.realpath(os.path.join(folder, name))
        if not path.startswith(os.path.join(folder, "")):
            raise UsageError(
                f"{self.config_path}: {field} leads to {path!r:.300}, expected a file below "
                f"{folder}: copy it there."
            )

    def files(self) -> dict[int, str]:
        """The model files of the versions that the version policy chooses, lowest first.

        Raises UsageError where there is no version, or a file is missing.
        """
        return {number: self._file(number) for number in self.versions()}

    def versions(self) -> list[int]:
        """The numbers of the versions that the version policy chooses, lowest first."""
        return self._chosen(sorted(self._versions()))

    def _versions(self) -> Iterator[int]:
        """The subfolders whose names are numbers of versions; others do not count. UsageError where
        one is a link that leads to itself.
        """
        with os.scandir(self.path) as entries:
            for entry in entries:
                number = entry.name
                if number.isascii() and number.isdigit() and number[0] != "0" and _is_dir(entry):
                    yield int(number)

    def _chosen(self, versions: list[int]) -> list[int]:
        policy = self.config.version_policy
        choice = policy.WhichOneof("policy_choice")
        if choice == "specific":
            wanted = sorted(set(policy.specific.versions))
            missing = [one for one in wanted if one not in versions]
            if missing or not wanted:
                raise UsageError(
                    f"{self.config_path}: the version policy names {wanted}, and the folder has "
                    f"{versions}."
                )
            return wanted
        if not versions:
            raise UsageError(
                f"{self.path}: has no version: expected a folder such as 1 with {DEFAULT_FILE}."
            )
        return versions if choice == "all" else versions[-(policy.latest.num_versions or 1) :]

    def _file(self, version: int) -> str:
        """The model file of a version; in a folder of this name, the file with external data."""
        named = self.config.default_model_filename
        folder = os.path.join(self.path, str(version))
        if named:
            self.require_below("default_model_filename", os.path.join(str(version), named))
        path = os.path.join(folder, named or DEFAULT_FILE)
        if os.path.isdir(path):
            path = os.path.join(path, DEFAULT_FILE)
        if not os.path.isfile(path):
            has = ", ".join(sorted(os.listdir(folder))) or "nothing"
            raise UsageError(
                f"model '{self.name}' version {version}: has no file {path}; its folder has {has}. "
                "Only ONNX models are served; default_model_filename names another file."
            )
        return path


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        raise UsageError(f"{entry.path}: cannot be read: {error.strerror}.") from error
