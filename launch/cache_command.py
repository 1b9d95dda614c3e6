"""`rankmesh cache`: what the model cache holds, whether it is whole, and emptying it."""

from __future__ import annotations

import time

import typer

app = typer.Typer(no_args_is_help=True, help="Show, check or empty the model cache (RANKMESH_CACHE, or "
                                             "model_cache_dir in a configuration).")


@app.command("list")
def list_entries() -> None:
    """List the models whose build is kept, the one used last first."""
    from rich.console import Console
    from rich.table import Column, Table

    from ..worker.cache.settings import default_store

    store = default_store()
    table = Table(Column("model", overflow="fold"), "entry", "MiB", "last used")
    for entry in store.entries():
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
        table.add_row(entry.manifest.source, entry.path.name[:12], f"{entry.manifest.size / 2**20:.1f}", used)
    total = sum(entry.manifest.size for entry in store.entries())
    Console().print(table)
    print(f"{store.folder}: {table.row_count} entries, {total / 2**20:.1f} MiB of at most {store.limit / 2**20:.0f}")


@app.command()
def verify() -> None:
    """Read all entries and compare them with what was written; damaged ones are removed, and the exit code is 1."""
    from ..worker.cache.settings import default_store
    from ..worker.cache.verification import verify as verify_entries

    store, damaged, count = default_store(), 0, 0
    for finding in verify_entries(store):
        count, damaged = count + 1, damaged + bool(finding.damaged)
        if finding.damaged:
            print(f"{finding.path}: {finding.damaged} is not what was written"
                  f"{f' for {finding.source}' if finding.source else ''}: removed")
    print(f"{store.folder}: checked {count} entries, {damaged} damaged")
    raise typer.Exit(int(damaged > 0))


@app.command()
def clear() -> None:
    """Remove all entries. Models that are open go on; the next build of each starts from its file."""
    from ..worker.cache.settings import default_store

    store = default_store()
    print(f"{store.folder}: removed {store.clear()} entries")
