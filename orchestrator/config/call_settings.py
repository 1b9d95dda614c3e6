"""Settings of a call: the models that the arguments of Orchestrator mean."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import Any

from ...comm.errors import UsageError
from .agent_settings import AgentSettings
from .launcher_settings import LauncherSettings
from .orchestrator_settings import OrchestratorSettings
from .settings import ModelSettings, ServedSettings

_UNNAMED = "?"
GivenModel = str | os.PathLike[str] | ServedSettings | Sequence[ServedSettings]
"""A model file or pattern, or the settings of models: none where they are loaded later."""


def models_of(
    given: GivenModel | None, config: str | None, arguments: Mapping[str, Any]
) -> tuple[ServedSettings, ...]:
    """The models of a call: one of a path with the settings among `arguments`, models with settings
    of their own, or those of the YAML file `config`.

    Other arguments than those named like settings do not count. Raises UsageError for both or
    neither, and where models have settings of their own and the call has some, too.
    """
    if (given is None) == (config is None):
        raise UsageError("Orchestrator: give a model, or config= with a YAML file, and not both.")
    if isinstance(given, (str, os.PathLike)):
        return (_model_of(given, arguments),)
    _refuse_settings(_model_of(_UNNAMED, arguments), config or "its ModelSettings")
    if given is not None:
        models = (given,) if isinstance(given, ServedSettings) else tuple(given)
        return OrchestratorSettings(models=models).models if models else ()
    assert config is not None
    from .settings_file import load_settings  # pydantic takes its time

    return load_settings(config).models


def agents_of(config: str | None, arguments: Mapping[str, Any]) -> AgentSettings | None:
    """The agents of a call, whose arguments come before the settings of the YAML file `config`.

    None where this process starts the ranks. Raises UsageError.
    """
    base = LauncherSettings()
    if config is not None:
        from .settings_file import load_settings  # pydantic takes its time

        base = load_settings(config)
    return LauncherSettings.of(arguments, base).agent_settings()


def _model_of(path: str | os.PathLike[str], arguments: Mapping[str, Any]) -> ModelSettings:
    """The model at a path, with the settings among `arguments`."""
    names = {field.name for field in fields(ModelSettings)}
    settings = {name: value for name, value in arguments.items() if name in names}
    if settings.get("devices") is not None:
        settings["devices"] = tuple(settings["devices"])
    return ModelSettings(os.fspath(path), **settings)


def _refuse_settings(given: ModelSettings, place: str) -> None:
    """UsageError where a call has a setting that belongs to another place."""
    usual = ModelSettings(_UNNAMED)
    for field in fields(ModelSettings):
        if getattr(given, field.name) != getattr(usual, field.name):
            raise UsageError(
                f"Orchestrator: {field.name} is a setting of one model: write it into {place}."
            )


def settings_of(
    model: str | os.PathLike[str] | ServedSettings, settings: Mapping[str, Any]
) -> ServedSettings:
    """The settings of one model that is loaded: as they are, or of its path and `settings`.

    Raises UsageError for both, and for a setting that there is not.
    """
    if isinstance(model, ServedSettings):
        if settings:
            kind = type(model).__name__
            raise UsageError(f"load: {min(settings)} is one of the {kind}: set it there.")
        return model
    names = [field.name for field in fields(ModelSettings)]
    unknown = settings.keys() - names
    if unknown:
        raise UsageError(f"load: there is no setting {min(unknown)!r}, but {', '.join(names)}.")
    given = dict(settings)
    if given.get("devices") is not None:
        given["devices"] = tuple(given["devices"])
    return ModelSettings(os.fspath(model), **given)


def check_call(results: str, priority: object) -> None:
    """UsageError where a request asks for other results than there are, or has no priority."""
    if results not in ("once", "all"):
        raise UsageError(f"results={results!r}: expected 'once', or 'all' for those of every rank.")
    if type(priority) is not int and not isinstance(priority, Integral):
        raise UsageError(
            f"priority={priority!r}: expected a whole number; requests of a higher one go first."
        )
