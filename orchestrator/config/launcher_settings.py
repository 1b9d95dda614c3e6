"""Launcher settings: say what starts the ranks of an orchestrator, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypedDict

from .agent_settings import RAY, AgentSettings
from .setting_checks import FORBID_OTHERS, SettingFault

AGENTS = "agents"
LAUNCHERS = ("local", AGENTS, RAY)


class LaunchingArguments(TypedDict, total=False):
    """The settings of LauncherSettings as arguments of a call."""

    launcher: str | None
    listen: str | None
    agents: int | None
    key_file: str | None
    join_timeout: float | None
    host_timeout: float | None
    trusted_networks: Sequence[str] | None
    ray_address: str | None


@dataclass(frozen=True, slots=True)
class LauncherSettings:
    """Which launcher starts the ranks: this process itself (`local`, None), `agents` that users
    start, or agents that `ray` starts.

    The other settings are those of AgentSettings, each None where it was not given.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    launcher: str | None = None
    listen: str | None = None
    agents: int | None = None
    key_file: str | None = None
    join_timeout: float | None = None
    host_timeout: float | None = None
    trusted_networks: tuple[str, ...] | None = None
    ray_address: str | None = None

    def agent_settings(self) -> AgentSettings | None:
        """The settings of the agents; None where this process starts the ranks.

        Raises SettingFault.
        """
        given = {name: value for name, value in self.given().items() if name != "launcher"}
        if self.launcher not in (None, *LAUNCHERS):
            expected = " or ".join(LAUNCHERS)
            raise SettingFault("launcher", f"got {self.launcher!r}, expected {expected}.")
        if self.launcher not in (AGENTS, RAY):
            for name in given:
                raise SettingFault(name, "is a setting of launcher: agents, and that is not given.")
            return None
        if self.launcher == RAY:
            return self._of_ray(given)
        if self.ray_address is not None:
            raise SettingFault(
                "ray_address", "is a setting of launcher: ray, and that is not given."
            )
        if self.listen is None:
            raise SettingFault("listen", "is missing: launcher: agents needs HOST:PORT.")
        return AgentSettings(**given)

    def _of_ray(self, given: dict[str, Any]) -> AgentSettings:
        if self.agents is not None:
            raise SettingFault(
                "agents", "is not given with launcher: ray, which starts as many as needed."
            )
        return AgentSettings(**given, engine=RAY)

    def given(self) -> dict[str, Any]:
        """The settings that were given, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(LauncherSettings)}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, arguments: Mapping[str, Any], base: LauncherSettings) -> LauncherSettings:
        """The arguments of a call, and for those that are None or missing the settings of `base`.

        TypeError for another argument.
        """
        unknown = arguments.keys() - {field.name for field in fields(LauncherSettings)}
        if unknown:
            raise TypeError(f"Orchestrator() got an unexpected keyword argument {min(unknown)!r}")
        own = {name: value for name, value in arguments.items() if value is not None}
        if "trusted_networks" in own:
            own["trusted_networks"] = tuple(own["trusted_networks"])
        return cls(**{**base.given(), **own})
