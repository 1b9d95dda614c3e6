"""What a configuration asks for the weights: sharing them with listed processes, using shared ones, updating them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...comm.config import Config
from ...comm.errors import UsageError
from ...comm.sharing.whitelist import parse_pids
from .variable_names import read_variable_names

_SECTION, _PIDS, _HANDLE = "ascend_context", "shareable_weight_pid_list", "shareable_weight_mem_handle"
_FLAT = {"pids": _PIDS, "shared_mem_handle": _HANDLE}
_FILE, _LIST = "variable_weights_file", "variable_weights_list"
_MODE = "variable_weights_mode"


@dataclass(frozen=True, slots=True)
class WeightSettings:
    """`pids`: who may use this process's weights (None: they are not shared). `handle`: whose weights to use.

    `names`: the weights that updates may replace, with their nodes' paths or "". `delta`: whether updates are added
    to the exported weights instead of replacing them. `mode`: live, packed or private where one is forced, else "".
    """

    pids: tuple[int, ...] | None = None
    handle: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    delta: bool = False
    mode: str = ""

    @property
    def live(self) -> bool:
        """Whether anything here needs weights that are shared or change."""
        return self.mode == "live" or self.pids is not None or self.handle is not None or bool(self.names)

    @classmethod
    def of(cls, config: Config) -> WeightSettings:
        """What `config` asks for; UsageError where that contradicts itself or cannot be read."""
        entries = {key: text.strip("\"' \t") for key, text in config.sections.get(_SECTION, {}).items()}
        if _PIDS in entries and _HANDLE in entries:
            raise UsageError(f"{_PIDS} and {_HANDLE} are both set: a process either shares its weights or uses those "
                             f"of another. Leave one away.")
        names = variable_names(config)
        if names and _HANDLE in entries:
            raise UsageError(f"{_FILE} and {_HANDLE} are both set: only the owner of shared weights updates them. "
                             f"Leave {_FILE} away here.")
        mode = config.weights_mode
        if mode in ("packed", "private") and (names or _PIDS in entries or _HANDLE in entries):
            raise UsageError(f"weights_mode is '{mode}', and {_PIDS}, {_HANDLE} and {_FILE} need live weights. Leave "
                             f"one away.")
        return cls(_pids(entries[_PIDS]) if _PIDS in entries else None,
                   _number(entries[_HANDLE]) if _HANDLE in entries else None, names, _delta(entries.get(_MODE, "")),
                   mode)


def variable_names(config: Config) -> dict[str, str]:
    """The weights that updates may replace, of the file and of the list; raises as read_variable_names."""
    path = config.file(_SECTION, _FILE)
    listed = filter(None, (name.strip("\"' \t") for name in config.get(_SECTION, _LIST).split(",")))
    return {**(read_variable_names(path) if path else {}), **dict.fromkeys(listed, "")}


def with_flat_keys(config: Any) -> Any:
    """A `config_dict` with `pids` and `shared_mem_handle` in their section, and numbers there as text.

    The documents write both `{"pids": ...}` and `{"ascend_context": {"shareable_weight_pid_list": ...}}`, and
    handles as text and as numbers. What is no such thing stays as it is, for whoever checks it.
    """
    if not isinstance(config, dict):
        return config
    flat = {_FLAT[key]: value for key, value in config.items() if key in _FLAT and not isinstance(value, dict)}
    rest = {key: value for key, value in config.items() if key not in _FLAT or isinstance(value, dict)}
    section = rest.get(_SECTION, {})
    if not isinstance(section, dict) or not (flat or _HANDLE in section):
        return rest
    return {**rest, _SECTION: {key: _text(key, value) for key, value in {**section, **flat}.items()}}


def _text(key: str, value: Any) -> Any:
    return str(value) if key == _HANDLE and isinstance(value, int) and not isinstance(value, bool) else value


def _pids(text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_pids(text))
    except ValueError as error:
        raise UsageError(f"{_PIDS}: {error}.") from error


def _number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**63:
        raise UsageError(f"{_HANDLE} is '{text}', expected the number that get_model_info('{_HANDLE}') gives in the "
                         f"owner of the weights, 1 to 2**63 - 1.")
    return int(text)


def _delta(text: str) -> bool:
    if text not in ("", "replace", "delta"):
        raise UsageError(f"{_MODE} is '{text}', expected replace (tensors take the place of the weights) or delta "
                         f"(they are added to the exported weights).")
    return text == "delta"
