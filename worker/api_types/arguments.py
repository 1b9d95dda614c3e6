"""Argument checks: functions and attributes that refuse wrong types in MindSpore Lite's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, overload


def check_type(name: str, value: object, wanted: type) -> None:
    """TypeError `<name> must be <type>, but got ...` unless `value` is an instance; a bool is an
    int.
    """
    if not isinstance(value, wanted):
        raise TypeError(f"{name} must be {wanted.__name__}, but got {type(value)}.")


def check_count(name: str, value: Any) -> None:
    """As check_type for an int; ValueError where it is negative."""
    check_type(name, value, int)
    if value < 0:
        raise ValueError(f"{name} must be a non-negative int, but got {value}.")


def check_elements(name: str, values: Any, wanted: type | tuple[type, ...], word: str = "") -> None:
    """TypeError `<name> element must be <type>, but got ... at index <i>` for the first that is
    not.
    """
    word = word or getattr(wanted, "__name__", "")
    for index, element in enumerate(values):
        if not isinstance(element, wanted):
            raise TypeError(
                f"{name} element must be {word}, but got {type(element)} at index {index}."
            )


def check_list(name: str, values: Any, wanted: type) -> None:
    """TypeError unless `values` is a list, and all its elements are of type `wanted`."""
    check_type(name, values, list)
    check_elements(name, values, wanted)


def check_sequence(name: str, values: Any) -> None:
    """TypeError unless `values` is a list or a tuple."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name} must be list or tuple, but got {type(values)}.")


def check_sections(name: str, sections: Any) -> None:
    """TypeError unless `sections` is `{section: {key: value}}` with texts only."""
    check_type(name, sections, dict)
    for section, entries in sections.items():
        check_type(f"{name}_key", section, str)
        check_type(f"{name}_value", entries, dict)
        _check_entries(name, entries)


def _check_entries(name: str, entries: Mapping[object, object]) -> None:
    for key, value in entries.items():
        check_type(f"{name}_value_key", key, str)
        check_type(f"{name}_value_value", value, str)


T = TypeVar("T")
NO_DEVICE = "None:-1"
"""The device of a Tensor that was made for none."""


def checked_device(device: object) -> str:
    """A Tensor's device: "ascend:<n>", or NO_DEVICE for None; raises TypeError for any other."""
    if device is None:
        return NO_DEVICE
    check_type("device", device, str)
    kind, colon, number = str(device).partition(":")
    if kind != "ascend":
        raise TypeError(f"now only support ascend device. but got {device}.")
    if colon and not number.removeprefix("-").isdigit():
        raise TypeError(f"device must be 'ascend:index', but got {device}.")
    if number.startswith("-"):
        raise TypeError(f"device id should >= 0. but got {number}.")
    return f"ascend:{int(number or 0)}"


class Attribute(Generic[T]):
    """A checked attribute with a default; subclasses check its values, and errors call it
    `label`."""

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
        """Whether the attribute was set on `instance`."""
        return self._key in instance.__dict__

    def checked(self, value: T) -> T:
        """The value to store; raises TypeError or ValueError where `value` is refused."""
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
    """A str; where there are `choices`, one of them."""

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
    """A list of ints, stored as a copy; `non_negative` refuses negative ones."""

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
