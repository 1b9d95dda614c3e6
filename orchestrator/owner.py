"""What a group of ranks is doing, and who gives it its work."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ..comm.errors import RankmeshError
from ..comm.serving.orders import Answer, Serving
from .editions import Edition
from .journal import Journal
from .work import Work

if TYPE_CHECKING:
    from .group import Group


class Condition(Enum):
    """What a group is doing."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPED = "stopped"


class Owner(Protocol):
    """Who gives a group its work; called in the loop's thread, without the lock."""

    @property
    def journal(self) -> Journal:
        """What the log says about the model."""

    def group_ready(self, group: Group) -> None:
        """The group takes work."""

    @property
    def promised(self) -> Serving | None:
        """What the model's first ranks have reported, once there are any."""

    @property
    def edition(self) -> Edition:
        """The weights that ranks which are started now are to have."""

    def group_switched(self, group: Group) -> None:
        """The ranks compute with the weights that they were to switch to."""

    def group_answered(self, group: Group, work: Work, answers: list[Answer]) -> None:
        """A work is done, without an error."""

    def group_refused(self, group: Group, work: Work, error: RankmeshError) -> None:
        """The ranks could not do a work."""

    def group_failed(self, group: Group, error: RankmeshError, works: list[Work], guilty: Work | None) -> None:
        """The group restarts, or has stopped, with `works` undone; `guilty` is what ran on the rank that failed."""
