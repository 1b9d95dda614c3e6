"""Event callback: tells of events until it is dropped, errors in calls of a loop among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from .event_loop import Action, EventLoop, Timer
from .rank_events import CallbackFailed, ProcessT, RankEvent


class EventCallback(Generic[ProcessT]):
    """Calls `notify` with each event. Dropped, it refers to nothing: `notify` is mostly a method of
    an object that is to be freed with its memory.
    """

    def __init__(self, notify: Callable[[RankEvent[ProcessT]], None], loop: EventLoop) -> None:
        self._notify: Callable[[RankEvent[ProcessT]], None] | None = notify
        self._loop = loop

    def __call__(self, event: RankEvent[ProcessT]) -> None:
        """Tell of an event; nothing, once dropped."""
        if self._notify is not None:
            self._notify(event)

    def drop(self) -> None:
        """Tell of nothing any more."""
        self._notify = None

    def guarded(self, action: Action) -> Action:
        """Wrap `action` for the loop: what it raises comes as CallbackFailed."""

        def call() -> None:
            try:
                action()
            except Exception as error:
                self(CallbackFailed(error))

        return call

    def call_later(self, seconds: float, action: Action) -> Timer:
        """Call `action`, guarded, after `seconds`."""
        return self._loop.call_later(seconds, self.guarded(action))
