"""Attributes of the context classes: a default, a check when set, and the name that errors give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

from .arguments import check_count, check_list, check_type

T = TypeVar("T")


class Attribute(Generic[T]):
    """A descriptor; subclasses say what is a good value. `label` is what errors call it."""

    def __init__(self, default: T, label: str) -> None:
        self.default = default
        self.label = label

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Attribute[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Attribute[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.get(self._key, self.default)
        return value

    def __set__(self, instance: object, value: T) -> None:
        instance.__dict__[self._key] = self.checked(value)

    def given(self, instance: object) -> bool:
        """Whether the attribute was ever set."""
        return self._key in instance.__dict__

    def checked(self, value: T) -> T:
        """The value to store; TypeError or ValueError where it is a bad one."""
        raise NotImplementedError


class Count(Attribute[int]):
    """An int from 0 up."""

    def __init__(self, label: str) -> None:
        super().__init__(0, label)

    def checked(self, value: int) -> int:
        """See Attribute."""
        check_count(self.label, value)
        return value


class Text(Attribute[str]):
    """A str; with `choices`, one of these."""

    def __init__(self, label: str, choices: Sequence[str] = (), default: str = "") -> None:
        super().__init__(default, label)
        self.choices = list(choices)

    def checked(self, value: str) -> str:
        """See Attribute."""
        check_type(self.label, value, str)
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.label} must be in {self.choices}, but got {value}.")
        return value


class IntList(Attribute[list[int]]):
    """A list of ints, kept as a copy; `non_negative` refuses negative ones."""

    def __init__(self, label: str, non_negative: bool = False) -> None:
        super().__init__([], label)
        self.non_negative = non_negative

    @overload
    def __get__(self, instance: None, owner: type) -> Attribute[list[int]]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> list[int]: ...

    def __get__(self, instance: Any, owner: type) -> Attribute[list[int]] | list[int]:
        value = super().__get__(instance, owner)
        return list(value) if isinstance(value, list) else value

    def checked(self, value: list[int]) -> list[int]:
        """See Attribute."""
        check_list(self.label, value, int)
        if self.non_negative and min(value, default=0) < 0:
            raise ValueError(f"{self.label} contain a negative number, got {value}.")
        return list(value)
