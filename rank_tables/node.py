"""JSON node: one value of a parsed document, with its path for faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from .fault import MOST_FAULTS, RankTableFault, raise_all

_DECIMAL = re.compile(r"[0-9]{1,10}", re.ASCII)
_BOUND = 2**32
_SHOWN = 60
_Read = TypeVar("_Read")


class JsonNode:
    """A JSON value at `path`; reading it as another type raises RankTableFault."""

    def __init__(self, value: object, path: str = "") -> None:
        self.value = value
        self.path = path

    def fail(self, text: str) -> NoReturn:
        """Raise the fault `text` at this path."""
        raise RankTableFault(text, self.path)

    def expected(self, what: str) -> NoReturn:
        """Raise the fault that this value is not `what`."""
        self.fail(f"got {_shown(self.value)}, expected {what}")

    def get(self, key: str) -> JsonNode | None:
        """The member `key` of an object, or None where it is absent."""
        if not isinstance(self.value, dict):
            self.expected("an object {...}")
        return JsonNode(self.value[key], self._path_of(key)) if key in self.value else None

    def at(self, key: str) -> JsonNode:
        """The member `key` of an object; absent is a fault."""
        found = self.get(key)
        if found is None:
            raise RankTableFault("is missing", self._path_of(key))
        return found

    def optional(self, key: str, read: Callable[[JsonNode], _Read]) -> _Read | None:
        """The result of `read` for the member `key`, or None where it is absent."""
        found = self.get(key)
        return None if found is None else read(found)

    def each(self, read: Callable[[JsonNode], _Read]) -> tuple[_Read, ...]:
        """The results of `read` for the elements of a list.

        A fault in one does not hide those of the others.
        """
        results: list[_Read] = []
        faults: list[RankTableFault] = []
        for node in self._items():
            try:
                results.append(read(node))
            except RankTableFault as fault:
                faults.append(fault)
                if len(faults) == MOST_FAULTS:
                    break
        raise_all(faults)
        return tuple(results)

    def miscounts(self, key: str, actual: int, what: str) -> Iterator[RankTableFault]:
        """Yield a fault if the member `key`, where there is one, does not say `actual`.

        `what` says what was counted.
        """
        try:
            stated = self.optional(key, JsonNode.integer)
        except RankTableFault as fault:
            yield fault
        else:
            if stated not in (None, actual):
                yield RankTableFault(f"got {stated}, but {what}", self._path_of(key))

    def integer(self) -> int:
        """A small integer of 0 or more, written as a number or, as the tools do, as a string."""
        value = self.value
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _BOUND:
            self.expected(f"an integer of 0 or more (below {_BOUND})")
        return value

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.expected("a string")
        return self.value

    def label(self) -> str:
        """A string, or a small integer as its digits."""
        return self.value if isinstance(self.value, str) else str(self.integer())

    def _items(self) -> Iterator[JsonNode]:
        if not isinstance(self.value, list):
            self.expected("a list [...]")
        return (JsonNode(value, f"{self.path}[{i}]") for i, value in enumerate(self.value))

    def _path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
