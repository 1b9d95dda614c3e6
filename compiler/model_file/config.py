"""Configuration of a model: sections of text, read from an .ini file and overridden by dicts."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular

Sections = dict[str, dict[str, str]]
_WEIGHTS_MODES = ("", "live", "packed", "private")
_MOST_LINES = 100_000
_MOST_BYTES = 16 << 20
"""100,000 lines of 160 bytes; a line for every node of a large model is a tenth of that.
"""
_MOST_SECTIONS, _MOST_KEYS = 100, 1000
_SHORTEST_LINE = 3


class Config:
    """Sections of keys and values, all text; unknown ones are kept. `path` is the .ini file's."""

    def __init__(self, sections: Sections | None = None, path: str = "") -> None:
        self.sections: Sections = sections or {}
        self.path = path

    @classmethod
    def read(cls, path: str) -> Config:
        """Read an .ini file of at most 16 MiB; raises ValueError with the file and the fault."""
        try:
            content = io.StringIO(read_regular(path, _MOST_BYTES).decode("utf-8-sig"), newline=None)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(
                f"{path} cannot be read as text: {reason}. Give an .ini file."
            ) from error
        lines = [text for line in content if _counts(text := line.strip())]
        if len(lines) > _MOST_LINES:
            raise ValueError(
                f"{path} has {len(lines)} lines, more than {_MOST_LINES}. Give a smaller file."
            )
        return cls(_parse(lines), path)

    def updated(self, sections: Mapping[str, Mapping[str, str]]) -> Config:
        """A copy in which `sections` override key by key; raises ValueError where they are too
        many.
        """
        _check_limits(sections)
        merged = {name: dict(entries) for name, entries in self.sections.items()}
        for name, entries in sections.items():
            merged.setdefault(name, {}).update(entries)
        return Config(merged, self.path)

    def get(self, section: str, key: str, default: str = "") -> str:
        """One value as it was written, `default` without one."""
        return self.sections.get(section, {}).get(key, default)

    def bare(self, section: str, key: str) -> str:
        """One value without blanks and quotes around it: MindSpore Lite's documents write
        quotes."""
        return self.get(section, key).strip("\"' \t")

    def file(self, section: str, key: str) -> str:
        """A value that names a file, without quotes. A relative path that does not exist is taken
        from the folder of the .ini file, where it exists there.
        """
        name = self.bare(section, key)
        beside = os.path.join(os.path.dirname(self.path), name)
        return beside if name and not os.path.exists(name) and os.path.exists(beside) else name

    @property
    def rank_table_file(self) -> str:
        """The path of the rank table of a distributed model, "" for one device."""
        return self.file("ascend_context", "rank_table_file")

    @property
    def weights_mode(self) -> str:
        """The forced place of the weights: "live", "packed" or "private", "" where none is forced.
        Raises UsageError for any other word.
        """
        mode = self.bare("ascend_context", "weights_mode")
        if mode not in _WEIGHTS_MODES:
            raise UsageError(f"weights_mode is '{mode}', expected live, packed or private.")
        return mode

    @property
    def input_shape(self) -> str:
        """The declared input shapes, as the configuration writes them."""
        return self._of_any_device("input_shape")

    @property
    def dynamic_dims(self) -> str:
        """The profiles of the dynamic dimensions, as the configuration writes them."""
        return self._of_any_device("dynamic_dims")

    def _of_any_device(self, key: str) -> str:
        return self.get("ascend_context", key) or self.get("gpu_context", key)


def _counts(line: str) -> bool:
    return len(line) >= _SHORTEST_LINE and not line.startswith("#")


def _parse(lines: list[str]) -> Sections:
    """The sections in order. Of two sections or keys with one name the first counts; empty sections
    are left out.
    """
    sections: Sections = {}
    for name, body in _split(lines):
        entries: dict[str, str] = {}
        for line in body:
            key, equals, value = line.partition("=")
            if equals:
                entries.setdefault(key.strip(), value.strip())
        if entries:
            sections.setdefault(name, entries)
    return sections


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Each section's name and lines; lines before the first section are left out."""
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            sections.append((line[1:-1].strip(), []))
        elif sections:
            sections[-1][1].append(line)
    return sections


def _check_limits(sections: Mapping[str, Mapping[str, str]]) -> None:
    if len(sections) > _MOST_SECTIONS:
        raise ValueError(f"got {len(sections)} sections, expected at most {_MOST_SECTIONS}.")
    for name, entries in sections.items():
        if len(entries) > _MOST_KEYS:
            raise ValueError(
                f"section '{name}' has {len(entries)} keys, expected at most {_MOST_KEYS}."
            )
