"""Command classes: quick conversion of plain options, and the hint for several model files.

typer 0.29 and later converts every option with pydantic, even an option that was not given.
Importing pydantic takes longer than all of these conversions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from ...comm.errors import UsageError
from ...comm.job.shard import pattern_of


class QuickGroup(TyperGroup):
    """A group of commands that converts its own plain options without pydantic."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click's Command.get_params."""
        return [_quick(param) for param in super().get_params(ctx)]


class QuickCommand(TyperCommand):
    """A command that converts its plain options without pydantic."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click's Command.get_params."""
        return [_quick(param) for param in super().get_params(ctx)]


class ModelCommand(QuickCommand):
    """A command with the one argument MODEL; UsageError where there are more."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click's Command.parse_args."""
        model = next(param for param in self.get_params(ctx) if param.param_type_name == "argument")
        ctx.allow_extra_args = True
        more = super().parse_args(ctx, args)
        if more:
            raise UsageError(_several([ctx.params[model.name], *more]))
        return more


def _several(files: list[str]) -> str:
    """The error for several files, which a shell made of a pattern."""
    shown = f"{', '.join(files[:3])}{', ...' if len(files) > 3 else ''}"
    pattern = pattern_of(files)
    hint = (
        f"These are the files of {len(files)} ranks: '{pattern}' (quoted) names them all."
        if pattern
        else "One file per rank is written as a pattern: 'model_{rank}.mindir' (quoted)."
    )
    return f"got {len(files)} arguments ({shown}), expected one MODEL. {hint}"


def _quick(param: Any) -> Any:
    param.process_value = partial(_process_value, param)
    return param


def _process_value(param: Any, ctx: Any, value: Any) -> Any:
    """Convert absent values, texts and digits here; for others see click's
    Parameter.process_value.
    """
    if not _is_plain(param, value):
        return type(param).process_value(param, ctx, value)
    if isinstance(value, str) and _kind(param) is int:
        value = int(value)
    return param.callback(ctx, param, value) if param.callback else value


def _is_plain(param: Any, value: Any) -> bool:
    """Whether `value` needs no conversion other than `int`."""
    if param.nargs != 1 or getattr(param, "multiple", False):
        return _kind(param) == list[str] and bool(value)
    if value is None:
        return not param.required
    if _kind(param) is int and str(value).isdecimal():
        return param.max is None and int(value) >= (param.min or 0)
    return _kind(param) is str and isinstance(value, str)


def _kind(param: Any) -> Any:
    """The type that typer converts to; None for versions of typer that convert in another way."""
    return getattr(getattr(param, "type_descriptor", None), "annotation", None)
