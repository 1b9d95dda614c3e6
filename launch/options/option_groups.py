"""Option groups: dataclasses with one option of a command in each field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the fields of each parameter that is a dataclass as options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = list(_parameters(command, hints))

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameters(command: Callable[..., None], hints: dict[str, Any]) -> Iterator[Parameter]:
    for one in signature(command).parameters.values():
        kind = hints[one.name]
        if not is_dataclass(kind):
            yield one.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY)
            continue
        inner = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=inner[field.name],
            )
