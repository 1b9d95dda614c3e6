"""Agent parts: the memory, the slots and the event loop that all ranks of one agent share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...comm.host.resources import memory_limit
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots
from ...comm.transport.stream_invitation import StreamInvitation
from ..event_loop.loop import EventLoopThread, IdleTrim
from .hosted_weights import HostedWeights


class SharedArena(NamedTuple):
    """Descriptors of the orchestrator's arena, on its own host: the file, and an end of a pipe that
    all processes with the file keep open.
    """

    file: int
    kept: int


class AgentParts(NamedTuple):
    """The tensors of orders and the updated weights of one connection's ranks, and their loop.

    Ranks have the `shared` arena in place of `arena`, where there is one. At the `slot` the thread
    that gives orders waits for answers. `addressed` completes the invitation of a rank to the
    orchestrator's host.
    """

    arena: OwnedArena
    shared: SharedArena | None
    weights: OwnedArena
    updated: HostedWeights
    slots: CallerSlots
    slot: int
    loop: EventLoopThread
    addressed: Callable[[StreamInvitation], StreamInvitation]

    @classmethod
    def made(
        cls,
        loop: EventLoopThread,
        shared: SharedArena | None,
        addressed: Callable[[StreamInvitation], StreamInvitation],
    ) -> AgentParts:
        """Parts for a new connection, with the agent's loop; OSError where there is no memory."""
        largest = memory_limit().size
        slots = CallerSlots(CallerSlots.create(), spare=False)
        tensors, weights = OwnedArena(0, largest), OwnedArena(0, largest)
        IdleTrim(tensors, loop)
        updated = HostedWeights(weights)
        return cls(tensors, shared, weights, updated, slots, slots.take(), loop, addressed)

    def close(self) -> None:
        """Free them, but for the shared arena; the ranks should have ended."""
        self.arena.close()
        self.weights.close()
        self.slots.leave(self.slot)
        self.slots.close()
