"""Calls of the API: their arguments are checked, and their errors name the call that failed.

Order and words of the checks are those that scripts rely on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ...comm.errors import ModelError, RankmeshError, UsageError
from ...comm.job.shard import find_shards
from ...comm.text import visible
from ...compiler.mindir.crypto import Decryption, allows, decryption_from_environment
from ...compiler.model_file.config import Config, Sections
from ..api_types.arguments import check_sections, check_type
from ..weights.settings import variable_names, with_flat_keys

_MOST_PARALLEL = 64


def check_exists(model_path: str, config_path: str) -> None:
    """RuntimeErrors where one of the files is missing."""
    try:
        if not os.path.isfile(os.path.join(model_path, "config.json")):  # a folder to be sliced
            find_shards(model_path)
    except ModelError as error:
        raise ModelError(f"build_from_file failed, model_path does not exist! {error}") from error
    if config_path and not os.path.isfile(config_path):
        raise UsageError(
            f"build_from_file failed, config_path does not exist! Got '{config_path}'."
        )


def configured(config_path: str, config_dict: Sections | None) -> Config:
    """The configuration of a build; {} and None are both nothing. Raises TypeError, UsageError."""
    try:
        config = Config.read(config_path) if config_path else Config()
    except ValueError as error:
        raise UsageError(f"load configuration failed! Error is {error}") from error
    variable_names(config)  # scripts see an error of this file before those of config_dict
    if config_dict is None:
        return config
    config_dict = with_flat_keys(config_dict)
    check_sections("config_dict", config_dict)
    try:
        return config.updated(config_dict)
    except ValueError as error:
        raise UsageError(f"update configuration failed! Error is {error}") from error


def check_decryption(dec_key: bytes, dec_mode: str, dec_num_parallel: int) -> None:
    """TypeErrors, and a ValueError for an empty mode."""
    check_type("dec_key", dec_key, bytes)
    check_type("dec_mode", dec_mode, str)
    check_type("dec_num_parallel", dec_num_parallel, int)
    if not dec_mode:
        raise ValueError("dec_mode must not be empty string!")


def decryption_of(dec_key: bytes | None, dec_mode: str, dec_num_parallel: int) -> Decryption | None:
    """How to read encrypted files: with the key that was given, else with that in RANKMESH_KEY, if
    there is one.
    """
    if not 0 <= dec_num_parallel <= _MOST_PARALLEL:
        raise UsageError(f"dec_num_parallel is {dec_num_parallel}, expected 0 to {_MOST_PARALLEL}.")
    if dec_key:
        return Decryption(dec_key, dec_mode, allows(os.environ))
    return decryption_from_environment(os.environ, dec_mode)


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Errors inside say what failed, and stay of their class; those of libraries become
    RankmeshErrors.
    """
    try:
        yield
    except RankmeshError as error:
        prefix_error(what, error)
        raise
    except Exception as error:
        raise wrap_library_error(what, error) from harmless_cause(error)


def prefix_error(what: str, error: RankmeshError) -> None:
    """Have an error say which call has failed."""
    error.args = (f"{what} failed! Error is {error}",)
    if error.__cause__ and harmless_cause(error.__cause__) is None:
        error.__cause__ = None


def wrap_library_error(what: str, error: Exception) -> RankmeshError:
    """A library's error, as ours: onnx and onnxruntime raise classes of their own."""
    return RankmeshError(f"{what} failed! Error is {type(error).__name__}: {error}")


def harmless_cause(cause: BaseException | None) -> BaseException | None:
    """The cause of an error; None where a traceback would print a name with it that steers the
    terminal.
    """
    behind = cause
    while behind is not None:
        if visible(str(behind)) != str(behind):
            return None
        behind = behind.__cause__ or behind.__context__
    return cause
