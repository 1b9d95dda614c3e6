"""`rankmesh inspect`: describes model files and configurations."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..options.options import AllowUnauthenticated, DecMode, Json, Key, KeyFile


def inspect(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", show_default=False, help="As for `rankmesh run`."),
    ] = None,
    json: Json = False,
    key: Key = None,
    key_file: KeyFile = None,
    dec_mode: DecMode = "AES-GCM",
    allow_unauthenticated: AllowUnauthenticated = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A configuration (.ini) to read MODEL with. Without MODEL: show which of its "
            "keys take effect, which have none here, and which are unknown.",
        ),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Show all weights instead of the first 12.")
    ] = False,
) -> None:
    """Show a model's inputs, outputs, weights and plan, or the effects of a configuration."""
    if model is None and config is None:
        raise typer.BadParameter("name a MODEL, or a configuration with --config FILE.")
    from ..inspection.inspect import inspect_config, inspect_model
    from ..options.user_files import model_key

    if model is None:
        inspect_config(str(config), json)
    else:
        decryption = model_key(key, key_file, dec_mode, os.environ, allow_unauthenticated)
        inspect_model(model, json, decryption, config, weights)
