"""WeightManager: shares the weights of a model with other processes of this host."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from ...comm.errors import UsageError
from .model import Model, weight_owner


class WeightManager:
    """The weights of one built model, for listed processes; a context manager that ends the
    sharing.

    A process that has the weights when the sharing ends keeps them, until an update needs memory
    that it was not given.
    """

    def __init__(self, model: Model, pids: Iterable[int] = ()) -> None:
        """List `pids`, which must be processes that run now. Raises UsageError."""
        self._broker = weight_owner(model).share(())
        for pid in pids:
            self.allow(pid)

    def __repr__(self) -> str:
        return f"WeightManager(handle={self.handle}, clients={self.clients()})"

    @classmethod
    def share(cls, model: Model, pids: Iterable[int] = ()) -> WeightManager:
        """Share the weights of `model` with the processes `pids` of this user."""
        return cls(model, pids)

    @property
    def handle(self) -> int:
        """The number for a listed process's shareable_weight_mem_handle, 1 to 2**63 - 1."""
        return self._broker.handle

    def allow(self, pid: int) -> None:
        """Let a process have the weights; UsageError where no process has this number."""
        if not self._broker.allow(pid):
            raise UsageError(f"there is no process {pid} here: list processes while they run.")

    def revoke(self, pid: int) -> None:
        """Give a process nothing any more; what it has mapped it keeps until it ends."""
        self._broker.whitelist.revoke(pid)

    def clients(self) -> list[int]:
        """The processes that have the weights now, ascending."""
        return self._broker.clients()

    def close(self) -> None:
        """End the sharing."""
        self._broker.retire()

    def __enter__(self) -> WeightManager:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
