"""Attributes of a Converter: each checks what it is set to, with MindSpore Lite's messages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NoReturn, TypeVar

from .arguments import Attribute, check_type

EnumT = TypeVar("EnumT", bound=Enum)


class Flag(Attribute[bool]):
    """A bool, False by default."""

    def __init__(self, label: str) -> None:
        super().__init__(False, label)

    def checked(self, value: bool) -> bool:
        """See Attribute."""
        check_type(self.label, value, bool)
        return value


class EnumChoice(Attribute[EnumT]):
    """A member of an enumeration, one of `choices`."""

    def __init__(self, label: str, default: EnumT, choices: Sequence[EnumT]) -> None:
        super().__init__(default, label)
        self.choices = choices

    def checked(self, value: EnumT) -> EnumT:
        """See Attribute."""
        check_type(self.label, value, type(self.default))
        if value not in self.choices:
            names = ", ".join(f"{type(one).__name__}.{one.name}" for one in self.choices)
            raise ValueError(f"{self.label} must be in [{names}], but got {value}.")
        return value


class Secret(Attribute[str]):
    """A key in hexadecimal digits, which cannot be read back."""

    def __init__(self, label: str) -> None:
        super().__init__("", label)

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        raise TypeError(f"{self.label} is write-only.")

    def revealed(self, instance: object) -> str:
        """The key, for the conversion."""
        return str(super().__get__(instance, type(instance)))

    def checked(self, value: str) -> str:
        """See Attribute."""
        check_type(self.label, value, str)
        return value


class Shapes(Attribute[dict[str, list[int]]]):
    """Shapes of inputs by name."""

    def __init__(self, label: str) -> None:
        super().__init__({}, label)

    def checked(self, value: dict[str, list[int]]) -> dict[str, list[int]]:
        """See Attribute."""
        check_type(self.label, value, dict)
        for name, sizes in value.items():
            if not isinstance(name, str):
                _refuse(f"{self.label} key", "str", name)
            if not isinstance(sizes, list):
                _refuse(f"{self.label} value", "list", sizes)
            for size in sizes:
                if type(size) is not int:
                    _refuse(f"{self.label} value's element", "int", size)
        return {name: list(sizes) for name, sizes in value.items()}


class Optimisation(Attribute[str]):
    """The device that a model is prepared for. It changes nothing here: models are prepared for
    their device when they are built. Of `ascend_oriented:910b` the chip is dropped.
    """

    _CHOICES = ("none", "general", "gpu_oriented", "ascend_oriented")
    _CHIPS = ("default", "910b")

    def __init__(self, label: str) -> None:
        super().__init__("general", label)

    def checked(self, value: str) -> str:
        """See Attribute."""
        check_type(self.label, value, str)
        choice, colon, chip = value.partition(":")
        if choice not in self._CHOICES or (colon and choice != "ascend_oriented"):
            raise ValueError(
                f"{self.label} must be 'none', 'general', 'gpu_oriented', 'ascend_oriented' or "
                f"'ascend_oriented:910b', but got {value}."
            )
        if colon and chip not in self._CHIPS:
            raise ValueError(f"chip_name must be in [{', '.join(self._CHIPS)}], but got {chip}.")
        return choice


def _refuse(label: str, wanted: str, value: object) -> NoReturn:
    raise TypeError(f"{label} must be {wanted}, but got {type(value)}.")
