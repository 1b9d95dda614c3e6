"""`rankmesh generate`: texts of a decoder, as they come."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ..options.option_groups import with_groups
from .serve import Ranks, Replicas, Threads


@dataclass(frozen=True)
class PlaceGroup:
    """The options of the ranks."""

    ranks: Ranks = None
    replicas: Replicas = None
    threads: Threads = None
    context: Annotated[
        int | None,
        typer.Option(metavar="N", help="The most tokens of a text, its prompt included."),
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="fp32|int8|int4",
            show_default="fp32; int4 for GGUF files of four bits",
            help="Of the weights of a Hugging Face folder or a GGUF file.",
        ),
    ] = None


@dataclass(frozen=True)
class PromptGroup:
    """The options of prompts and answers."""

    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON lines, each a text or a list of token ids; - is the standard input.",
        ),
    ] = None
    chat: Annotated[
        bool, typer.Option("--chat", help="Put the prompt into the model's chat template.")
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="One JSON line for each text, with the token ids.")
    ] = False


@dataclass(frozen=True)
class SamplingGroup:
    """The options of sampling; docs/generation.md has more of them for programs."""

    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", show_default="256, or what the context has room for", help="The most."
        ),
    ] = None
    temperature: Annotated[
        float, typer.Option(metavar="T", help="0 takes the most probable token.")
    ] = 0.0
    top_k: Annotated[int, typer.Option(metavar="K", help="Of the K best tokens; 0: all.")] = 0
    top_p: Annotated[
        float, typer.Option(metavar="P", help="Of the tokens that together have probability P.")
    ] = 1.0
    seed: Annotated[int | None, typer.Option(metavar="N", help="Equal seeds: equal texts.")] = None
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Ends a text; may be repeated.")
    ] = None
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="The model's end tokens do not end a text.")
    ] = False


@with_groups
def generate(
    place: PlaceGroup,
    given: PromptGroup,
    sampling: SamplingGroup,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="A folder of onnxruntime-genai or of Hugging Face, or a GGUF file.",
        ),
    ],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", show_default=False, help="The prompt.")
    ] = None,
) -> None:
    """Generate text behind a prompt, and print it as it comes."""
    from ...orchestrator.config.generation_settings import GenerationSettings
    from ...orchestrator.config.settings import ModelSettings
    from ..generation.generate import TextForm
    from ..generation.generate import generate as run
    from ..generation.prompts import prompts_of

    settings = ModelSettings(
        model,
        ranks=place.ranks,
        replicas=place.replicas,
        threads=place.threads,
        timeout=None,
        generation=GenerationSettings(context=place.context, precision=place.precision),
    )
    prompts = prompts_of(prompt, given.prompts)
    stop = tuple(sampling.stop or ())
    run(settings, prompts, TextForm(given.chat, given.json), {**asdict(sampling), "stop": stop})
