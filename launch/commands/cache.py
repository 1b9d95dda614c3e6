"""`rankmesh cache`: lists, checks and empties the model cache."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...comm.errors import ModelError, UsageError
from ...comm.job.shard import RANK, find_shards, placeholder_hint
from ...comm.text import counted, show, visible_line

if TYPE_CHECKING:
    from ...worker.cache.manifest import CacheEntry

CachedModel = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="Only the entries of this model: as for `rankmesh run`, or as `rankmesh cache list` "
        "shows it.",
    ),
]
app = typer.Typer(
    no_args_is_help=True,
    help="Show, check or empty the model cache (RANKMESH_CACHE, else ~/.cache/rankmesh/models).",
)


@app.command("list")
def list_entries() -> None:
    """List the models with a kept build, the last used first."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from ...worker.cache.settings import shown_store

    store = shown_store()
    table = Table(Column("model", overflow="fold"), "entry", "MiB", "last used")
    for entry in store.entries():
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
        source = escape(visible_line(entry.manifest.source))
        table.add_row(source, entry.path.name[:12], _mib(entry.manifest.size), used)
    total = sum(entry.manifest.size for entry in store.entries())
    Console().print(table)
    show(
        f"{store.folder}: {counted(table.row_count, 'entry', 'entries')}, {total / 2**20:.1f} MiB "
        f"of at most {store.limit / 2**20:.0f}"
    )


@app.command()
def verify() -> None:
    """Read all entries and compare them with what was written.

    Damaged entries are removed, and the exit code is 1.
    """
    from ...worker.cache.settings import shown_store
    from ...worker.cache.verification import verify as verify_entries

    store, damaged, count = shown_store(), 0, 0
    for finding in verify_entries(store):
        count, damaged = count + 1, damaged + bool(finding.damaged)
        if finding.damaged:
            show(
                f"{finding.path}: {finding.damaged} is not what was written"
                f"{f' for {finding.source}' if finding.source else ''}: "
                f"{'removed' if finding.removed else f'not removed, as {store.folder} may only be read'}"  # noqa: E501
            )
    show(f"{store.folder}: checked {counted(count, 'entry', 'entries')}, {damaged} damaged")
    raise typer.Exit(int(damaged > 0))


@app.command()
def clear(
    model: CachedModel = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the entries to be removed, and remove none.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
    ] = False,
) -> None:
    """Remove all entries, or those of a model, after a question.

    Open models are not affected; the next build starts from the file. Slices that a job uses stay.
    """
    from ...worker.cache.settings import shown_store

    store = shown_store()
    chosen = [
        entry for entry in store.entries() if model is None or _is_of(entry.manifest.source, model)
    ]
    what = _told(chosen)
    if model is not None and not chosen:
        _tell_nothing_kept(store.folder, model)
    elif dry_run:
        for entry in chosen:
            name, size = entry.path.name[:12], entry.manifest.size
            show(f"{entry.manifest.source}  ({name}, {_mib(size)} MiB)")
        show(f"{store.folder}: would remove {what}")
    else:
        _confirm(store.folder, what if chosen and not yes else "")
        kept = [entry for entry in chosen if not store.discard_unused(entry.path)]
        if model is None:
            store.clear()  # damaged entries and left-over files too
        used = f"; kept {_told(kept)}, which jobs use" if kept else ""
        show(f"{store.folder}: removed {_told([one for one in chosen if one not in kept])}{used}")


def _is_of(source: str, model: str) -> bool:
    """Whether an entry was made from a file that MODEL names, or named while the file existed."""
    path = os.path.abspath(os.path.expanduser(model))
    if re.fullmatch(re.escape(path).replace(re.escape(RANK), "[0-9]+"), source):
        return True
    try:
        shards = find_shards(path)
    except ModelError:
        return False
    return source in {shards.path(rank) for rank in range(shards.count)}


def _tell_nothing_kept(folder: Path, model: str) -> None:
    """Print that nothing is kept; UsageError for a MODEL such as a glob, which never names an
    entry.
    """
    hint = "" if RANK in model else placeholder_hint(model)
    if hint:
        raise UsageError(hint)
    path = os.path.abspath(os.path.expanduser(model))
    show(
        f"{folder}: nothing is kept of {path}; `rankmesh cache list` shows the models with entries"
    )


def _told(entries: Sequence[CacheEntry]) -> str:
    """The number of entries and their size."""
    size = sum(entry.manifest.size for entry in entries)
    return f"{counted(len(entries), 'entry', 'entries')}, {_mib(size)} MiB"


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def _confirm(folder: Path, what: str) -> None:
    """Return if `what` may be removed; a question is asked unless it is "".

    Raises UsageError for a read-only folder, and where there is no terminal.
    """
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder} may only be read: nothing can be removed.")
    if not what:
        return
    question = f"{folder}: remove {what}?"
    if not sys.stdin.isatty():
        raise UsageError(
            f"{question} There is no terminal to ask at: confirm with --yes, or list the "
            "entries with --dry-run."
        )
    typer.confirm(question, abort=True)
