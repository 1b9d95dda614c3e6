"""`rankmesh cache`: what the model cache holds, whether it is whole, and emptying it."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import typer

from ..comm.counted import counted
from ..comm.errors import ModelError, UsageError
from ..comm.model_hint import placeholder_hint
from ..comm.shard import RANK, find_shards
from ..comm.visible import show, visible_line
from . import options

app = typer.Typer(no_args_is_help=True, help="Show, check or empty the model cache (RANKMESH_CACHE, "
                                             "else ~/.cache/rankmesh/models).")


@app.command("list")
def list_entries() -> None:
    """List the models whose build is kept, the one used last first."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from ..worker.cache.settings import shown_store

    store = shown_store()
    table = Table(Column("model", overflow="fold"), "entry", "MiB", "last used")
    for entry in store.entries():
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
        source = escape(visible_line(entry.manifest.source))
        table.add_row(source, entry.path.name[:12], f"{entry.manifest.size / 2**20:.1f}", used)
    total = sum(entry.manifest.size for entry in store.entries())
    Console().print(table)
    show(f"{store.folder}: {counted(table.row_count, 'entry', 'entries')}, {total / 2**20:.1f} MiB of at most "
         f"{store.limit / 2**20:.0f}")


@app.command()
def verify() -> None:
    """Read all entries and compare them with what was written; damaged ones are removed, and the exit code is 1."""
    from ..worker.cache.settings import shown_store
    from ..worker.cache.verification import verify as verify_entries

    store, damaged, count = shown_store(), 0, 0
    for finding in verify_entries(store):
        count, damaged = count + 1, damaged + bool(finding.damaged)
        if finding.damaged:
            show(f"{finding.path}: {finding.damaged} is not what was written"
                 f"{f' for {finding.source}' if finding.source else ''}: "
                 f"{'removed' if finding.removed else f'not removed, as {store.folder} may only be read'}")
    show(f"{store.folder}: checked {counted(count, 'entry', 'entries')}, {damaged} damaged")
    raise typer.Exit(int(damaged > 0))


@app.command()
def clear(model: options.CachedModel = None, dry_run: options.DryRun = False, yes: options.Yes = False) -> None:
    """Remove all entries, or those of a model; asks first. Open models go on; the next build starts from the file."""
    from ..worker.cache.settings import shown_store

    store = shown_store()
    entries = store.entries()
    chosen = entries if model is None else [entry for entry in entries if _is_of(entry.manifest.source, model)]
    if model is not None and not chosen:
        _tell_nothing_kept(store.folder, model)
        return
    what = f"{counted(len(chosen), 'entry', 'entries')}, {sum(entry.manifest.size for entry in chosen) / 2**20:.1f} MiB"
    if dry_run:
        for entry in chosen:
            show(f"{entry.manifest.source}  ({entry.path.name[:12]}, {entry.manifest.size / 2**20:.1f} MiB)")
        show(f"{store.folder}: would remove {what}")
        return
    if not os.access(store.folder, os.W_OK):
        raise UsageError(f"{store.folder} may only be read: nothing can be removed.")
    if chosen and not yes:
        _ask(f"{store.folder}: remove {what}?")
    if model is None:
        store.clear()  # damaged entries too, and what killed writers left
    for entry in chosen:
        store.discard(entry.path)
    show(f"{store.folder}: removed {what}")


def _is_of(source: str, model: str) -> bool:
    """Whether an entry was made from a file that MODEL names, now or, where its files are gone, once."""
    path = os.path.abspath(os.path.expanduser(model))
    if re.fullmatch(re.escape(path).replace(re.escape(RANK), "[0-9]+"), source):
        return True
    try:
        shards = find_shards(path)
    except ModelError:
        return False
    return source in {shards.path(rank) for rank in range(shards.count)}


def _tell_nothing_kept(folder: Path, model: str) -> None:
    """UsageError where MODEL has a glob or the like: it would name nothing whatever was kept."""
    hint = "" if RANK in model else placeholder_hint(model)
    if hint:
        raise UsageError(hint)
    path = os.path.abspath(os.path.expanduser(model))
    show(f"{folder}: nothing is kept of {path}; `rankmesh cache list` shows the models of which something is")


def _ask(question: str) -> None:
    """Go on where the answer is yes; UsageError where there is no terminal to ask at."""
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask at: say --yes, or see what it is with --dry-run.")
    typer.confirm(question, abort=True)
