"""Generation of a command: starts a decoder, and prints the texts of its prompts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...comm.errors import UsageError
from ...orchestrator.config.settings import ModelSettings
from ...orchestrator.orchestrator import Orchestrator
from .prompts import Prompt

if TYPE_CHECKING:
    from ...orchestrator.generation.results import Generation


@dataclass(frozen=True, slots=True)
class TextForm:
    """Whether prompts go into the model's chat template, and texts are printed as JSON."""

    chat: bool
    json: bool


def generate(
    model: ModelSettings, prompts: Sequence[Prompt], form: TextForm, sampling: Mapping[str, Any]
) -> None:
    """Print the text behind each prompt: one as it comes, several in order. Raises the errors of
    Orchestrator and of its generation.
    """
    with Orchestrator(model) as orchestrator:
        if form.chat:
            prompts = [_chat(orchestrator, one) for one in prompts]
        if len(prompts) == 1 and not form.json:
            _stream(orchestrator, prompts[0], sampling)
            return
        futures = [orchestrator.submit_generation(one, **sampling) for one in prompts]
        for future in futures:
            found = future.result()
            print(_json(found) if form.json else found.text, flush=True)


def _chat(orchestrator: Orchestrator, prompt: Prompt) -> Prompt:
    if not isinstance(prompt, str):
        raise UsageError("--chat: got a list of token ids, expected a text.")
    return orchestrator.chat_tokens([{"role": "user", "content": prompt}])


def _stream(orchestrator: Orchestrator, prompt: Prompt, sampling: Mapping[str, Any]) -> None:
    for piece in orchestrator.stream(prompt, **sampling):
        sys.stdout.write(piece.text)
        sys.stdout.flush()
    print()


def _json(found: Generation) -> str:
    record = {
        "text": found.text,
        "tokens": [*found.tokens],
        "finish_reason": found.finish_reason,
        "usage": {
            "prompt_tokens": found.usage.prompt_tokens,
            "completion_tokens": found.usage.completion_tokens,
        },
    }
    return json.dumps(record, ensure_ascii=False)
