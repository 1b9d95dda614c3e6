"""Sharing the weights of a model with other processes, from Python."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from ...comm.errors import UsageError

if TYPE_CHECKING:
    from ..model import Model


class WeightManager:
    """The weights of one built model, for listed processes; a context manager that ends the sharing.

    Who has them when it ends keeps them; an update that needs memory which it was not given before stops it.
    """

    def __init__(self, model: Model, pids: Iterable[int] = ()) -> None:
        """List `pids`, which must be processes that run now. Raises UsageError."""
        self._sharing = model._owner().share(())
        for pid in pids:
            self.allow(pid)

    @classmethod
    def share(cls, model: Model, pids: Iterable[int] = ()) -> WeightManager:
        """Share the weights of `model` with the processes `pids` of this user."""
        return cls(model, pids)

    @property
    def handle(self) -> int:
        """What a listed process gives as shareable_weight_mem_handle, 1 to 2**63 - 1."""
        return self._sharing.handle

    def allow(self, pid: int) -> None:
        """Let a process have the weights; UsageError where no process has this number."""
        if not self._sharing.allow(pid):
            raise UsageError(f"there is no process {pid} here: list processes while they run.")

    def revoke(self, pid: int) -> None:
        """Give a process nothing any more; what it has mapped it keeps until it ends."""
        self._sharing.revoke(pid)

    def clients(self) -> list[int]:
        """The processes that have the weights now, ascending."""
        return self._sharing.clients()

    def close(self) -> None:
        """End the sharing."""
        self._sharing.end()

    def __enter__(self) -> WeightManager:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
