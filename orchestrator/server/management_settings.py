"""Settings of management: say whether clients may manage models, and where weights come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManagementSettings:
    """Settings of the management of one server's models."""

    offered: bool = False
    """Whether clients may load and unload models and update weights."""

    weights_folder: str | None = None
    """The folder that has the files of updates; None: weights are not updated."""

    drain_timeout: float = 30.0
    """Seconds for the requests under way of a model that is unloaded."""
