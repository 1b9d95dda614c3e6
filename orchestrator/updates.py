"""The weights of one model's ranks: as they are, as they were before, and how all ranks come to have others."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from ..comm.errors import RankFailed, UsageError
from ..comm.serving.tensor_arena import OwnedArena
from ..comm.serving.weights import Drop, Question, Reply
from .editions import Edition, Held, exported
from .epoch import Epoch
from .gathering import Gathering, checked
from .group import Group
from .inquiry import Inquiry, Lost
from .loop import Loop
from .offer import Given, Offer
from .owner import Condition
from .settings import ModelSettings

_DEATHS = 2
"""An update during which ranks of a group died as often is given up."""

_LOOK = 1.0
"""Seconds after which a wait looks for itself."""


class Updates:
    """Replaces weights in all groups of a model, or in none; one update at a time, from any thread but the loop's.

    First all ranks make it ready, while requests run; that may fail, and changes nothing. Then, in one moment, it
    counts: each group switches between two of its requests, and whoever is started from then on starts with it.
    """

    def __init__(self, settings: ModelSettings, groups: Sequence[Group], arena: OwnedArena, loop: Loop,
                 lock: threading.Lock, check_open: Callable[[], None]) -> None:
        """`lock` is the groups'; `check_open` raises what ends all updates."""
        self._settings, self._groups, self._loop, self._arena = settings, groups, loop, arena
        self._check_open = check_open
        self._gathering, self._numbers = Gathering(arena), itertools.count(1)
        self._turn = threading.Lock()
        self._changed = threading.Condition(lock)
        self._current: Edition | None = None
        self._previous: Edition | None = None

    @property
    def current(self) -> Edition:
        """What counts now."""
        if self._current is None:
            self._current = exported(len(self._groups[0].ranks))
        return self._current

    def update(self, given: Given, delta: bool) -> int:
        """Replace weights, or with `delta` set them to the exported ones plus what is given; the new version."""
        with self._my_turn():
            offer = Offer.of(given, len(self.current.ranks))
            new = self._gathered(offer, delta)
            self._put_into_effect(self.current.updated(next(self._numbers), new), self.current)
            return self.current.version

    def rollback(self) -> int:
        """Go back to the version before the last update, once; its number. UsageError where there is none."""
        with self._my_turn():
            if self._previous is None:
                raise UsageError("there is no version of the weights to go back to: only the one before the last "
                                 "update is kept, and only until somebody went back to it.")
            self._put_into_effect(self._previous, None)
            return self.current.version

    def note(self) -> None:
        """Groups are not what they were; from any thread, without the lock."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Nobody else updates meanwhile; where nothing comes of it, the ranks forget what they have made ready."""
        if threading.current_thread() is self._loop:
            raise UsageError("weights cannot be updated from a callback of a future: call it from a thread of yours.")
        with self._turn:
            before = self.current.number
            try:
                yield
            except BaseException:
                if self.current.number == before:
                    self._drop()
                raise
            finally:
                self._arena.trim()

    def _gathered(self, offer: Offer, delta: bool) -> list[dict[str, Held]]:
        for _ in range(_DEATHS):
            group, epoch = self._ready_ones()[0]
            try:
                return self._gathering.weights(offer, delta, partial(self._ask, epoch), self._make_room)
            except Lost:
                lost = group
        raise _given_up(lost)

    def _make_room(self) -> None:
        """Give the memory of the version before the current one to the next: there are never more than two copies."""
        self._previous = None

    def _put_into_effect(self, edition: Edition, previous: Edition | None) -> None:
        deaths, staged = Counter[Group](), set[Epoch]()
        while not self._committed(edition, previous, staged):
            for group, epoch, inquiry in self._inquiries(edition, staged):
                try:
                    checked(inquiry.replies())
                    staged.add(epoch)
                except Lost:
                    deaths[group] += 1
                    if deaths[group] >= _DEATHS:
                        raise _given_up(group) from None
        with self._changed:
            while any(group.switching for group in self._groups):
                self._check_open()
                self._changed.wait(_LOOK)

    def _committed(self, edition: Edition, previous: Edition | None, staged: set[Epoch]) -> bool:
        """Whether `edition` counts now: that needs all groups ready, with it `staged` in their epochs."""
        with self._changed:
            self._check_open()
            living = [group for group in self._groups if group.condition is not Condition.STOPPED]
            if not all(group.settled and group.epoch in staged for group in living):
                return False
            self._current, self._previous = edition, previous
            for group in living:
                group.switch(edition)
            return True

    def _inquiries(self, edition: Edition, staged: set[Epoch]) -> list[tuple[Group, Epoch, Inquiry]]:
        """Ask all groups that are ready, and have not staged `edition`, to do so."""
        return [(group, epoch, self._inquiry(epoch, [edition.stage(rank) for rank in range(len(edition.ranks))]))
                for group, epoch in self._ready_ones() if epoch not in staged]

    def _ready_ones(self) -> list[tuple[Group, Epoch]]:
        """The groups that run requests, and their epochs; waits for all that are on their way to it."""
        with self._changed:
            while True:
                self._check_open()
                living = [group for group in self._groups if group.condition is not Condition.STOPPED]
                if living and all(group.settled for group in living):
                    return [(group, group.epoch) for group in living if group.epoch is not None]
                self._changed.wait(_LOOK)

    def _drop(self) -> None:
        """Have the ranks forget what they have staged; whoever is not there has nothing to forget."""
        for group in self._groups:
            if group.epoch is not None:
                self._inquiry(group.epoch, [Drop() for _ in group.ranks])

    def _ask(self, epoch: Epoch, questions: Sequence[Question]) -> list[Reply]:
        return self._inquiry(epoch, questions).replies()

    def _inquiry(self, epoch: Epoch, questions: Sequence[Question]) -> Inquiry:
        return Inquiry(epoch, questions, self._loop, self._settings)


def _given_up(group: Group) -> RankFailed:
    return RankFailed(f"the weights stay as they were: ranks of replica {group.index} failed {_DEATHS} times while "
                      f"they made new ones ready. The last time: {group.failures.last}")
