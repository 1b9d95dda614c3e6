"""Checks of arguments that users pass to the API classes: TypeErrors in the words of the API we stand in for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_type(name: str, value: object, wanted: type) -> None:
    """TypeError `<name> must be <type>, but got ...` unless `value` is an instance; a bool is an int."""
    if not isinstance(value, wanted):
        raise TypeError(f"{name} must be {wanted.__name__}, but got {type(value)}.")


def check_count(name: str, value: Any) -> None:
    """The same for an int, and ValueError if it is negative."""
    check_type(name, value, int)
    if value < 0:
        raise ValueError(f"{name} must be a non-negative int, but got {value}.")


def check_elements(name: str, values: Any, wanted: type | tuple[type, ...], word: str = "") -> None:
    """TypeError `<name> element must be <type>, but got ... at index <i>` for the first that is not."""
    word = word or getattr(wanted, "__name__", "")
    for index, element in enumerate(values):
        if not isinstance(element, wanted):
            raise TypeError(f"{name} element must be {word}, but got {type(element)} at index {index}.")


def check_list(name: str, values: Any, wanted: type) -> None:
    """A list whose elements are all of one type."""
    check_type(name, values, list)
    check_elements(name, values, wanted)


def check_sequence(name: str, values: Any) -> None:
    """A list or a tuple."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name} must be list or tuple, but got {type(values)}.")


def check_sections(name: str, sections: Any) -> None:
    """A dict of sections: `{section: {key: value}}`, everything inside it text."""
    check_type(name, sections, dict)
    for section, entries in sections.items():
        check_type(f"{name}_key", section, str)
        check_type(f"{name}_value", entries, dict)
        _check_entries(name, entries)


def _check_entries(name: str, entries: Mapping[object, object]) -> None:
    for key, value in entries.items():
        check_type(f"{name}_value_key", key, str)
        check_type(f"{name}_value_value", value, str)
