"""The command line `rankmesh`: its commands, and the exit code of each error."""

from __future__ import annotations

import gc
import logging
import os
import sys
from typing import Annotated

import typer

from .. import __version__
from ..comm.errors import OutOfMemory, RankmeshError, UsageError, out_of_memory
from ..comm.host.secrecy import keep_secrets
from ..comm.loggers import check_log_setting
from ..comm.system_limits import limit_reached
from .commands.agent import agent
from .commands.bench import bench
from .commands.cache import app as cache_app
from .commands.calibrate import calibrate
from .commands.convert import convert
from .commands.env import env
from .commands.generate import generate
from .commands.inspect import inspect
from .commands.key import app as key_app
from .commands.launch import launch
from .commands.rank_table import app as rank_table_app
from .commands.run import run
from .commands.serve import serve
from .commands.slice import slice_model
from .commands.update_weights import update_weights
from .compat import print_compat_path
from .options.command_classes import ModelCommand, QuickCommand, QuickGroup
from .options.notice import notice

_COLLECTED_AT = 50_000
"""New objects that start a garbage collection. At the usual 700, imports spend a fifth of their
time on it.
"""

app = typer.Typer(
    name="rankmesh",
    cls=QuickGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run models that were sliced into one shard per device: one process (rank) per shard.",
)
app.add_typer(rank_table_app, name="rank-table")
app.add_typer(key_app, name="key")
app.add_typer(cache_app, name="cache")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"rankmesh {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that go before a command."""


app.command(cls=ModelCommand)(run)
app.command(cls=ModelCommand)(inspect)
app.command(cls=ModelCommand)(serve)
app.command(cls=QuickCommand)(generate)
app.command(cls=QuickCommand)(bench)
app.command("slice", cls=ModelCommand)(slice_model)
app.command(cls=QuickCommand, context_settings={"allow_interspersed_args": False})(launch)
app.command(cls=QuickCommand)(convert)
app.command()(agent)
app.command()(calibrate)
app.command()(update_weights)
app.command()(env)
app.command("compat-path")(print_compat_path)


def main() -> None:
    """Run a command. Errors of Rankmesh end in one message and their exit code."""
    from .supervision.signals import Interrupted

    gc.set_threshold(_COLLECTED_AT)
    if os.environ.get("RANKMESH_KEY"):
        keep_secrets()  # it is in the memory of this process
    try:
        check_log_setting()
        _run_command()
    except RankmeshError as error:
        notice(str(error), logging.ERROR)
        sys.exit(error.exit_code)
    except MemoryError as error:
        notice(out_of_memory(error), logging.ERROR)
        sys.exit(OutOfMemory.exit_code)
    except Interrupted as interrupted:
        notice(f"stopped by {interrupted}; {interrupted.outcome}", logging.ERROR)
        sys.exit(interrupted.exit_code)
    except BrokenPipeError:
        sys.exit(UsageError.exit_code)
    except OSError as error:
        if not (text := limit_reached(error)):
            raise
        notice(text, logging.ERROR)
        sys.exit(UsageError.exit_code)


def _run_command() -> None:
    """Run a command and write what it has printed, so that a fault of that is told too."""
    try:
        app()
    except SystemExit:
        sys.stdout.flush()
        raise
