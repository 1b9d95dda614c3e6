"""Settings of an orchestrator: all models and chains that it serves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from .chain_settings import ChainSettings, inner_first
from .launcher_settings import LauncherSettings
from .python_settings import PythonSettings
from .setting_checks import FORBID_OTHERS, SettingFault
from .settings import ModelSettings

NameT = TypeVar("NameT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class OrchestratorSettings(LauncherSettings):
    """All models of one orchestrator, each with a name of its own, and what starts their ranks."""

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    models: tuple[ModelSettings | PythonSettings | ChainSettings, ...] = ()

    def __post_init__(self) -> None:
        """Refuse no models, two of one name, and chains of models that there are not."""
        if not self.models:
            raise SettingFault("models", "got none, expected one or more.")
        twice = _repeated((model.label, model.version) for model in self.models)
        if twice is not None:
            name, version = twice
            number = "" if version is None else f" version {version}"
            raise SettingFault(
                "models", f"two are called '{name}'{number}: give each a name of its own."
            )
        _ = self.agent_settings()
        inner_first(self.chains, {model.label for model in self.models})

    @property
    def chains(self) -> tuple[ChainSettings, ...]:
        """Those of the models that are chains."""
        return tuple(one for one in self.models if isinstance(one, ChainSettings))


def _repeated(names: Iterable[NameT]) -> NameT | None:
    seen = set[NameT]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
