"""What a Context says about running several workers of one model."""

from __future__ import annotations

import os
from typing import Any

from .arguments import check_sections, check_type
from .attributes import Attribute, Count, IntList
from .config import Sections


class ExistingPath(Attribute[str]):
    """The path of a file that is there; setting an empty one changes nothing."""

    def __init__(self, label: str) -> None:
        super().__init__("", label)

    def __set__(self, instance: object, value: str) -> None:
        checked = self.checked(value)
        if checked:
            super().__set__(instance, checked)

    def checked(self, value: str) -> str:
        """See Attribute."""
        check_type(self.label, value, str)
        if value and not os.path.exists(value):
            raise ValueError(f"{self.label} does not exist, got '{value}'.")
        return value


class ParallelContext:
    """How many workers, on which devices, and with which configuration. 0 workers: as many as fit."""

    workers_num = Count("workers_num")
    config_path = ExistingPath("config_path")
    device_ids = IntList("device_ids", non_negative=True)

    def __init__(self) -> None:
        self.sections: Sections = {}

    @property
    def config_info(self) -> Any:
        """Set: a dict of sections, laid over those set before. Get: lines of text, `section: key value`."""
        lines = [f"{section}: {key} {value}" for section, entries in self.sections.items()
                 for key, value in entries.items()]
        return "\n".join(lines)

    @config_info.setter
    def config_info(self, sections: Sections) -> None:
        check_sections("config_info", sections)
        self.sections.update({name: dict(entries) for name, entries in sections.items()})

    def __str__(self) -> str:
        return (f"workers num: {self.workers_num},\nconfig info: {self.config_info},\n"
                f"config file: {self.config_path}.")
