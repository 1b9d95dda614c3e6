"""What collectives that a library carries out have in common: the register, and our errors for the library's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import CollectiveMismatch, RankFailed, RankmeshError
from ..rank import Rank
from .base import ONE_WAY, Array, Call
from .parts import copy_all
from .register import Page, Register, mismatch

CarryOut = Callable[[Sequence[Array], Sequence[Array]], None]


class RegisteredCollectives:
    """One rank's collectives; see `Collectives` for what `run` does. Subclasses say what carries a call out."""

    failures: tuple[type[Exception], ...]

    def __init__(self, rank: Rank, register: Register) -> None:
        self._rank, self._register = rank, register
        self._prepared: dict[int, tuple[Page, CarryOut]] = {}

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call` with the other members of its group."""
        page, carry_out = self._prepared.get(id(call)) or self._prepare(call)
        register = self._register
        register.enter(page, inputs, outputs)
        try:
            self.before(page)
            carry_out(inputs, outputs)
        except RankmeshError:
            raise
        except self.failures as error:
            raise self._explained(error, page) from error
        finally:
            register.stop_watching(page)
        register.leave(page)
        found = mismatch(self._rank.rank, page.roll)
        if found:
            raise CollectiveMismatch(found[1])

    def close(self) -> None:
        """Forget the calls."""
        self._prepared.clear()

    def carry_out(self, call: Call) -> CarryOut:
        """What carries out one call of two members or more, or of one that may send to itself."""
        raise NotImplementedError

    def before(self, page: Page) -> None:
        """What comes before every call."""

    def explained(self, error: Exception, page: Page) -> RankFailed:
        """The error of ours that the library's means, where the members came for the same."""
        return RankFailed(f"{self._rank}: {type(error).__name__} in {page.roll}: {error}")

    def _explained(self, error: Exception, page: Page) -> RankFailed:
        found = mismatch(self._rank.rank, page.roll)
        return CollectiveMismatch(found[1]) if found else self.explained(error, page)

    def _prepare(self, call: Call) -> tuple[Page, CarryOut]:
        """Find what carries the call out, once."""
        copying = call.group.size == 1 and call.kind not in ONE_WAY
        try:
            prepared = self._register.page(call), copy_all if copying else self.carry_out(call)
        except KeyError as missing:
            raise RankmeshError(
                f"{self._rank} did not prepare {missing} for {call}: every group and pair must be among those that "
                "the ranks joined with") from None
        self._prepared[id(call)] = prepared
        return prepared
