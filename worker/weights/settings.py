"""Weight settings: the keys of a configuration for sharing, using and updating weights."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular
from ...comm.sharing.whitelist import parse_pids
from ...compiler.model_file.config import Config

_SECTION, _PIDS, _HANDLE = (
    "ascend_context",
    "shareable_weight_pid_list",
    "shareable_weight_mem_handle",
)
_FLAT = {"pids": _PIDS, "shared_mem_handle": _HANDLE}
_FILE, _LIST = "variable_weights_file", "variable_weights_list"
_MODE = "variable_weights_mode"


@dataclass(frozen=True, slots=True)
class WeightSettings:
    """`pids`: the processes that may use this process's weights (None: not shared). `handle`: the
    handle of the weights to use.

    `names`: the weights that updates may replace, with their nodes' paths or "". `delta`: whether
    updates are added to the exported weights instead of replacing them. `mode`: live, packed or
    private where one is forced, else "".
    """

    pids: tuple[int, ...] | None = None
    handle: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    delta: bool = False
    mode: str = ""

    @property
    def live(self) -> bool:
        """Whether anything here needs weights that are shared or change."""
        return (
            self.mode == "live"
            or self.pids is not None
            or self.handle is not None
            or bool(self.names)
        )

    @classmethod
    def of(cls, config: Config) -> WeightSettings:
        """The settings in `config`. Raises UsageError where they contradict each other or cannot be
        read.
        """
        entries = {
            key: text.strip("\"' \t") for key, text in config.sections.get(_SECTION, {}).items()
        }
        if _PIDS in entries and _HANDLE in entries:
            raise UsageError(
                f"{_PIDS} and {_HANDLE} are both set: a process either shares its weights or uses "
                "those of another. Leave one away."
            )
        names = variable_names(config)
        if names and _HANDLE in entries:
            raise UsageError(
                f"{_FILE} and {_HANDLE} are both set: only the owner of shared weights updates "
                f"them. Leave {_FILE} away here."
            )
        mode = config.weights_mode
        if mode in ("packed", "private") and (names or _PIDS in entries or _HANDLE in entries):
            raise UsageError(
                f"weights_mode is '{mode}', and {_PIDS}, {_HANDLE} and {_FILE} need live weights. "
                "Leave one away."
            )
        return cls(
            _pids(entries[_PIDS]) if _PIDS in entries else None,
            _number(entries[_HANDLE]) if _HANDLE in entries else None,
            names,
            _delta(entries.get(_MODE, "")),
            mode,
        )


def variable_names(config: Config) -> dict[str, str]:
    """The weights that updates may replace, of the file and of the list; raises as
    read_variable_names.
    """
    path = config.file(_SECTION, _FILE)
    listed = filter(None, (name.strip("\"' \t") for name in config.get(_SECTION, _LIST).split(",")))
    return {**(read_variable_names(path) if path else {}), **dict.fromkeys(listed, "")}


def with_flat_keys(config: Any) -> Any:
    """A `config_dict` with `pids` and `shared_mem_handle` in their section, and numbers there as
    text.

    The documents write both `{"pids": ...}` and `{"ascend_context": {"shareable_weight_pid_list":
    ...}}`, and handles as text and as numbers. Any other entry stays, for later checks.
    """
    if not isinstance(config, dict):
        return config
    flat = {
        _FLAT[key]: value
        for key, value in config.items()
        if key in _FLAT and not isinstance(value, dict)
    }
    rest = {
        key: value for key, value in config.items() if key not in _FLAT or isinstance(value, dict)
    }
    section = rest.get(_SECTION, {})
    if not isinstance(section, dict) or not (flat or _HANDLE in section):
        return rest
    return {
        **rest,
        _SECTION: {key: _text(key, value) for key, value in {**section, **flat}.items()},
    }


def _text(key: str, value: Any) -> Any:
    return (
        str(value)
        if key == _HANDLE and isinstance(value, int) and not isinstance(value, bool)
        else value
    )


def _pids(text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_pids(text))
    except ValueError as error:
        raise UsageError(f"{_PIDS}: {error}.") from error


def _number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**63:
        raise UsageError(
            f"{_HANDLE} is '{text}', expected the number that get_model_info('{_HANDLE}') gives in "
            "the owner of the weights, 1 to 2**63 - 1."
        )
    return int(text)


def _delta(text: str) -> bool:
    if text not in ("", "replace", "delta"):
        raise UsageError(
            f"{_MODE} is '{text}', expected replace (tensors take the place of the weights) or "
            "delta (they are added to the exported weights)."
        )
    return text == "delta"


_NORMAL_ENDS = ("weight", "alpha")
_MOST_LINES = 1_000_000
_MOST_BYTES = 256 << 20
"""As many lines of 256 bytes as are read."""


def read_variable_names(path: str) -> dict[str, str]:
    """From each weight's name to its node's path, or to "" where MindSpore Lite's rule gives the
    node.

    One entry per line: `NAME`, which ends in weight or alpha, or `NAME,NODE`. Empty lines are
    skipped. Raises UsageError where the file cannot be read, is empty, or a line has neither form.
    """
    try:
        content = io.StringIO(read_regular(path, _MOST_BYTES).decode(), newline=None)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"variable weight name list is not exists. {path} cannot be read as text: {reason}. "
            "Name the weights to update there, one per line."
        ) from error
    lines = [line.strip() for line, _ in zip(content, range(_MOST_LINES), strict=False)]
    names = dict(_entry(line, number, path) for number, line in enumerate(lines, 1) if line)
    if not names:
        raise UsageError(
            f"{path}: names no weight. Write the names of the weights to update, one per line."
        )
    return names


def _entry(line: str, number: int, path: str) -> tuple[str, str]:
    columns = [column.strip() for column in line.split(",")]
    if len(columns) > 2:
        raise UsageError(
            f"{path}: line {number}: only support 1 or 2 row name list, got {len(columns)} "
            f"columns: '{line}'. Write NAME or NAME,NODE."
        )
    if len(columns) == 1 and not columns[0].endswith(_NORMAL_ENDS):
        raise UsageError(
            f"{path}: line {number}: variable is not norm name, now only support **weight, got "
            f"'{line}'. Write a name that ends in weight or alpha, or NAME,NODE."
        )
    return columns[0], columns[1] if len(columns) == 2 else ""
