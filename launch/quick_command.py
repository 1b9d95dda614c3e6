"""Commands that convert texts and whole numbers without pydantic, whose import takes longer than all that they do.

typer converts every option by pydantic (from 0.29 on), also one that was not given.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup


class QuickGroup(TyperGroup):
    """A group of commands whose own options need no pydantic where they are plain."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click's Command.get_params."""
        return [_quick(param) for param in super().get_params(ctx)]


class QuickCommand(TyperCommand):
    """A command whose options need no pydantic where they are plain."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click's Command.get_params."""
        return [_quick(param) for param in super().get_params(ctx)]


def _quick(param: Any) -> Any:
    param.process_value = partial(_process_value, param)
    return param


def _process_value(param: Any, ctx: Any, value: Any) -> Any:
    """See click's Parameter.process_value: here for what is not given, texts and digits, else as the class has it."""
    if not _is_plain(param, value):
        return type(param).process_value(param, ctx, value)
    if isinstance(value, str) and _kind(param) is int:
        value = int(value)
    return param.callback(ctx, param, value) if param.callback else value


def _is_plain(param: Any, value: Any) -> bool:
    """Whether `value` needs nothing but perhaps `int`."""
    if param.nargs != 1 or getattr(param, "multiple", False):
        return _kind(param) == list[str] and bool(value)
    if value is None:
        return not param.required
    if _kind(param) is int and str(value).isdecimal():
        return param.max is None and int(value) >= (param.min or 0)
    return _kind(param) is str and isinstance(value, str)


def _kind(param: Any) -> Any:
    """What typer converts to; None in versions of typer that do it another way."""
    return getattr(getattr(param, "type_descriptor", None), "annotation", None)
