"""The command line: `rankmesh` and `python -m rankmesh`; one function per command."""

from __future__ import annotations

import gc
import logging
import os
import sys

import typer

from ..comm.errors import OutOfMemory, RankmeshError, UsageError, out_of_memory
from ..comm.log_setting import check_log_setting
from ..comm.secrecy import keep_secrets
from ..comm.visible import show
from . import options
from .cache_command import app as cache_app
from .key_command import app as key_app
from .model_command import ModelCommand
from .notice import notice
from .quick_command import QuickCommand, QuickGroup
from .rank_table_command import app as rank_table_app

_COLLECTED_AT = 50_000
"""New objects at which garbage is looked for: at the usual 700, imports spend a fifth of their time on it."""

app = typer.Typer(
    name="rankmesh", cls=QuickGroup, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run models that were sliced into one shard per device: one process (rank) per shard.")
app.add_typer(rank_table_app, name="rank-table")
app.add_typer(key_app, name="key")
app.add_typer(cache_app, name="cache")


@app.callback()
def root(version: options.Version = False) -> None:
    """Take the options that go before a command."""


@app.command(cls=ModelCommand)
def run(
    model: options.Model, ranks: options.Ranks = None, rank_table: options.RankTable = None,
    inputs: options.Inputs = None, expect: options.Expect = None, rtol: options.Rtol = None,
    atol: options.Atol = None, save: options.Save = None, repeat: options.Repeat = 0, device: options.Device = None,
    collectives: options.Collectives = None, oversubscribe: options.Oversubscribe = False,
    verbose: options.Verbose = False, key: options.Key = None, key_file: options.KeyFile = None,
    dec_mode: options.DecMode = "AES-GCM", allow_unauthenticated: options.AllowUnauthenticated = False,
    config: options.Config = None, allow_equal_shards: options.AllowEqualShards = False,
    json: options.Json = False,
) -> None:
    """Run a model once on all its ranks, print its outputs, and compare them with references.

    Exit codes: 0 ok, 1 out of tolerance, 2 usage, 3 bad model or input, 4 a rank failed or is missing.
    """
    from .model_key import model_key
    from .run_options import RunOptions

    asked = RunOptions(model, ranks, rank_table, inputs, expect, rtol, atol, save, repeat, device, collectives,
                       oversubscribe, verbose, model_key(key, key_file, dec_mode, os.environ, allow_unauthenticated),
                       config, allow_equal_shards)
    if json:
        from .run_json import run_as_json as run_and_print
    else:
        from .run_text import run_as_text as run_and_print
    raise typer.Exit(run_and_print(asked))


@app.command(cls=ModelCommand)
def inspect(
    model: options.ModelOrNone = None, json: options.Json = False, key: options.Key = None,
    key_file: options.KeyFile = None, dec_mode: options.DecMode = "AES-GCM",
    allow_unauthenticated: options.AllowUnauthenticated = False, config: options.InspectConfig = None,
    weights: options.Weights = False,
) -> None:
    """Show what a model takes, gives, holds and uses, and how its ranks would run it; or what a configuration does."""
    if model is not None:
        from .inspect import inspect as inspect_model
        from .model_key import model_key

        inspect_model(model, json, model_key(key, key_file, dec_mode, os.environ, allow_unauthenticated), config,
                      weights)
    elif config is not None:
        from .inspect_config import inspect_config

        inspect_config(config, json)
    else:
        raise typer.BadParameter("name a MODEL, or a configuration with --config FILE.")


@app.command(cls=QuickCommand, context_settings={"allow_interspersed_args": False})
def launch(
    script: options.Script = None, ranks: options.LaunchedRanks = None, rank_table: options.RankTable = None,
    module: options.Module = False, log_dir: options.LogDir = None, launcher: options.Launcher = "local",
) -> None:
    """Run a Python script on every rank: pinned, supervised, its output prefixed with the rank.

    All ranks end within a second when one fails; the exit code is that rank's own.
    """
    from .launch import LaunchOptions
    from .launch import launch as launch_ranks

    raise typer.Exit(launch_ranks(LaunchOptions(tuple(script or ()), module, ranks, rank_table, log_dir, launcher)))


@app.command("update-weights")
def update_weights(pid: options.Owners, file: options.WeightsFile, layout: options.Layout = None,
                   delta: options.Delta = False) -> None:
    """Have processes replace weights of their model by those in a .safetensors, .npz or .mindir file, all or some.

    They must be of this user, and share their weights or name a variable_weights_file. Of a model of several ranks name
    all: they use the new weights once all have them.
    """
    from .update_weights_command import parse_layout
    from .update_weights_command import update_weights as update

    axes = parse_layout(layout or [])
    for owner in pid:
        show(update(owner, file, axes, delta))


@app.command()
def env() -> None:
    """Show which rank this process is, and which launcher's variables say so."""
    from .environment import describe_environment

    print("\n".join(describe_environment()))


@app.command("compat-path")
def compat_path() -> None:
    """Print the folder that makes `import mindspore_lite` find Rankmesh: PYTHONPATH=$(rankmesh compat-path)."""
    from .compat_path import compat_path as path

    print(path())


def main() -> None:
    """Run a command; errors that Rankmesh raises end in one message and their exit code."""
    from .signals import Interrupted

    gc.set_threshold(_COLLECTED_AT)
    if os.environ.get("RANKMESH_KEY"):
        keep_secrets()  # whatever the command does with it, the memory of this process has it
    try:
        check_log_setting()
        app()
    except RankmeshError as error:
        notice(str(error), logging.ERROR)
        sys.exit(error.exit_code)
    except MemoryError as error:
        notice(out_of_memory(error), logging.ERROR)
        sys.exit(OutOfMemory.exit_code)
    except Interrupted as interrupted:
        notice(f"stopped by {interrupted}; all ranks were ended", logging.ERROR)
        sys.exit(interrupted.exit_code)
    except BrokenPipeError:
        sys.exit(UsageError.exit_code)
