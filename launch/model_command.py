"""Commands that take one MODEL, and say how to name the files of several ranks where a shell lists them."""

from __future__ import annotations

from typing import Any

from ..comm.errors import UsageError
from ..comm.model_hint import pattern_of
from .quick_command import QuickCommand


class ModelCommand(QuickCommand):
    """A command whose only argument is MODEL; UsageError where there are more."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click's Command.parse_args."""
        model = next(param for param in self.get_params(ctx) if param.param_type_name == "argument")
        ctx.allow_extra_args = True
        more = super().parse_args(ctx, args)
        if more:
            raise UsageError(_said([ctx.params[model.name], *more]))
        return more


def _said(files: list[str]) -> str:
    pattern = pattern_of(files)
    return (f"got {len(files)} arguments ({', '.join(files[:3])}{', ...' if len(files) > 3 else ''}), expected one "
            f"MODEL. " + (f"These are the files of {len(files)} ranks: '{pattern}' (quoted) names them all." if pattern
                          else "One file per rank is written as a pattern: 'model_{rank}.mindir' (quoted)."))
