"""Served models of a command: reads them from a file, a YAML file or Triton repositories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...orchestrator.config.launcher_settings import LauncherSettings
from ...orchestrator.config.settings import ServedSettings
from ...orchestrator.orchestrator import Orchestrator
from ...orchestrator.server.configuration import Configuration

_OF_ONE_MODEL = ("ranks", "replicas", "device", "threads", "slice")


@dataclass(frozen=True, slots=True)
class ServedModels:
    """The models of one command: a model file or pattern with its ranks, a YAML file, or Triton
    repositories.
    """

    model: str | None
    ranks: int | None
    replicas: int | None
    device: str | None
    threads: int | None
    slice: str | None
    name: str | None = None
    """The name of the orchestrator for other programs."""

    model_repository: tuple[str, ...] = ()
    management: bool = False
    """Whether clients load models, so that repositories may be empty at the start."""

    launching: LauncherSettings = LauncherSettings()
    """Settings of the launcher, which come before those of the YAML file."""

    def __post_init__(self) -> None:
        """Refuse neither, both, and settings of a model beside repositories."""
        if (self.model is None) == (not self.model_repository):
            raise UsageError(
                "serve: give a model or a YAML file, or else --model-repository, and not both."
            )
        place = "its config.pbtxt" if self.model is None else self.model
        for name in _OF_ONE_MODEL if self.several else ():
            if getattr(self, name) is not None:
                raise UsageError(
                    f"serve: --{name} is a setting of one model: write it into {place}."
                )

    @property
    def several(self) -> bool:
        """Whether a YAML file, or repositories, have the models with their settings."""
        return self.model is None or self.model.endswith((".yaml", ".yml"))

    def start(self, configuration: Configuration | None = None) -> Orchestrator:
        """Start all ranks, and wait until they are ready; `configuration` is that of this object,
        by default a new one.
        """
        orchestrator = self._started(configuration or self.configuration())
        _refuse_decoders(orchestrator)
        if self.name is not None:
            orchestrator.listen(self.name)
        return orchestrator

    def _started(self, configuration: Configuration | None) -> Orchestrator:
        if configuration is not None:
            return Orchestrator(configuration.models(), **self._launching().given())
        return Orchestrator(
            self.model,
            self.ranks,
            replicas=self.replicas,
            device=self.device,
            threads=self.threads,
            slice=self.slice,
            **self.launching.given(),
        )

    def _launching(self) -> LauncherSettings:
        """Settings of the launcher, by the options and the YAML file, if there is one."""
        if self.model is None:
            return self.launching
        from ...orchestrator.config.settings_file import load_settings  # pydantic takes its time

        return LauncherSettings.of(self.launching.given(), load_settings(self.model))

    def configuration(self) -> Configuration | None:
        """The configuration that has the models; None where the command has the only one."""
        if self.model_repository:
            from ...orchestrator.server.triton.repositories import ModelRepositories

            return ModelRepositories(self.model_repository, self.management)
        return YamlConfiguration(self.model) if self.model and self.several else None


def _refuse_decoders(orchestrator: Orchestrator) -> None:
    """Raise UsageError, and end the ranks, where a model generates text."""
    decoders = orchestrator.status().decoders
    if decoders:
        orchestrator.close()
        raise UsageError(
            f"model '{decoders[0].model}' generates text, which the server does not offer: use "
            "`rankmesh generate`, or an Orchestrator of your program."
        )


@dataclass(frozen=True, slots=True)
class YamlConfiguration:
    """A YAML file with models."""

    path: str

    def models(self) -> Sequence[ServedSettings]:
        """See Configuration."""
        from ...orchestrator.config.settings_file import load_settings  # pydantic takes its time

        return load_settings(self.path).models

    def model(self, name: str) -> None:
        """See Configuration: the file is read as a whole."""
