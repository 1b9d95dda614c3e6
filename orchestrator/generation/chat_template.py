"""Chat template of a model: makes one prompt of the messages of a chat.

A template comes with the model, from others: it runs in jinja2's sandbox, which changes nothing and
calls nothing outside, and its ranges are bounded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ...comm.errors import InputError, ModelError, UsageError
from ...comm.host.regular_file import read_regular

Message = Mapping[str, Any]
"""The `role` and the `content` of one message."""

_TEMPLATE, _CONFIG = "chat_template.jinja", "tokenizer_config.json"
_MOST_BYTES = 4 << 20


class ChatTemplate:
    """The template in a folder, and the texts of the tokens that it names."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        """UsageError where jinja2 is missing, ModelError for a text that is not a template."""
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise UsageError(
                "chats need the package jinja2: pip install 'rankmesh[generate]'."
            ) from None
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ModelError(f"the chat template cannot be read: {error}.") from error
        self._errors = (TemplateError, TypeError, ValueError, KeyError, OverflowError)
        self._names = names

    @classmethod
    def beside(cls, folder: str) -> ChatTemplate | None:
        """The template of a folder; None where it has none. Raises ModelError."""
        config = _config(os.path.join(folder, _CONFIG))
        path = os.path.join(folder, _TEMPLATE)
        own = config.get("chat_template")
        source = _text(path) if os.path.exists(path) else own if isinstance(own, str) else None
        if source is None:
            return None
        tokens = {name: _token(config.get(name)) for name in ("bos_token", "eos_token")}
        return cls(source, tokens)

    def prompt(self, messages: Sequence[Message]) -> str:
        """The prompt behind which the model answers. Raises InputError where the template refuses
        the messages.
        """
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, **self._names
            )
        except self._errors as error:
            raise InputError(f"the chat template refuses the messages: {error}") from error


def _refuse(text: str) -> NoReturn:
    """Refuse messages, for templates."""
    raise ValueError(text)


def _config(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is no JSON: {error}.") from error
    return found if isinstance(found, dict) else {}


def _text(path: str) -> str:
    try:
        return read_regular(path, _MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"{path}: cannot be read: {reason}.") from error


def _token(entry: object) -> str:
    """The text of a token, which some files write as an object."""
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else ""
