"""Settings of a Python function: declare where it is, and the tensors that it takes and gives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from .setting_checks import FORBID_OTHERS, SettingFault
from .settings import ModelSettings

BYTES = "bytes"
"""The dtype of tensors whose elements are sequences of bytes, such as texts."""

_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64", BYTES),
)
_OF_FILES = {
    "rank_table": None,
    "devices": None,
    "collectives": None,
    "allow_equal_shards": False,
    "executor": None,
    "precision_mode": None,
    "execution_plan": None,
    "cache": True,
    "slice": None,
    "slice_dir": None,
}
"""Settings of models in files, by their defaults: a function has none of them."""


@dataclass(frozen=True, slots=True)
class TensorSettings:
    """One input or output of a function: its name, its dtype as numpy calls it or `bytes`, and its
    sizes (-1: any size).
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    name: str
    dtype: str
    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not self.name:
            raise SettingFault("name", "got an empty text, expected the name of a tensor.")
        if self.dtype not in _DTYPES:
            raise SettingFault(
                "dtype", f"got {self.dtype!r}, expected one of {', '.join(_DTYPES)}."
            )
        for size in self.dims:
            if isinstance(size, bool) or not isinstance(size, int) or size < -1:
                raise SettingFault("dims", f"got {size!r}, expected a size, or -1 for any.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSettings(ModelSettings):
    """A model that is a Python function, in worker processes of its own: one for each replica.

    - `path`, in a YAML file `python`: `FILE.py:NAME` or `MODULE:NAME`. A class is called once, and
      its object for each request.
    - `inputs`, `outputs`: the tensors. The function gets one array for each input, in this order,
      which it may only read, and only until it returns. It returns a dict with an array for each
      output, or these in order; of a single output the array itself.
    - `name` is by default that of the function. All else is as in ModelSettings; settings that
      belong to files or devices are refused.
    """

    inputs: tuple[TensorSettings, ...]
    outputs: tuple[TensorSettings, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        ModelSettings.__post_init__(self)
        if not (self.source and self.function.isidentifier()):
            raise SettingFault(
                "python", f"got {self.path!r}, expected FILE.py:NAME or MODULE:NAME."
            )
        for key, usual in _OF_FILES.items():
            if getattr(self, key) != usual:
                raise SettingFault(key, "is for model files, and this is a Python function.")
        if self.ranks not in (None, 1):
            raise SettingFault("ranks", "a Python function has one; replicas gives it several.")
        if self.device not in (None, "cpu"):
            raise SettingFault("device", f"got {self.device!r}; a Python function has cpu.")
        _require_distinct("inputs", self.inputs)
        _require_distinct("outputs", self.outputs)

    @property
    def source(self) -> str:
        """The file or the module of the function."""
        return self.path.rpartition(":")[0]

    @property
    def function(self) -> str:
        """The name of the function in its source."""
        return self.path.rpartition(":")[2]

    @property
    def label(self) -> str:
        """The name by which requests call the model, by default that of the function."""
        return self.name or self.function

    def path_in(self, folder: str) -> str:
        """The path for settings that are read in a folder: a file is looked for from there."""
        return os.path.join(folder, self.path) if self.source.endswith(".py") else self.path


def _require_distinct(key: str, tensors: tuple[TensorSettings, ...]) -> None:
    names = [one.name for one in tensors]
    if not names:
        raise SettingFault(key, "got none, expected one or more.")
    for name in names:
        if names.count(name) > 1:
            raise SettingFault(key, f"two are called '{name}': give each a name of its own.")
