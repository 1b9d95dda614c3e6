"""The list that networks.py commits, made from its journal."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def report(journal: Path) -> str:
    """One line per network with what became of it and its primitives; above them the union."""
    latest: dict[str, dict[str, Any]] = {}
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        latest[entry["name"]] = entry
    entries = [latest[name] for name in sorted(latest, key=str.lower)]
    union: Counter[str] = Counter()
    for entry in entries:
        union.update(entry.get("primitives", {}).keys())
    gaps = [entry["gap"] for entry in entries if "gap" in entry]
    lines = [
        f"# {len(entries)} of the 275 networks of mindcv 0.3 by name, random weights; written by networks.py, which",
        "# goes on with the others. VOLO and HaloNet are only lowered: MindSpore's CPU has no ExtractImagePatches.",
        "# NAME | INPUT | what became of it | primitives with their number of nodes",
        f"# lowered: {sum('primitives' in e and not e['unsupported'] for e in entries)}; "
        f"also run by MindSpore and matched: {len(gaps)}, largest relative error {max(gaps, default=0.0):.1e}; "
        f"not exported by MindSpore: {sum('refused' in e for e in entries)}",
        f"# {len(union)} primitives, each with the number of networks that use it: {_listed(union)}",
    ]
    return "\n".join([*lines, *map(_line, entries)]) + "\n"


def _line(entry: dict[str, Any]) -> str:
    size = "x".join(map(str, entry.get("input", ()))) or "-"
    return f"{entry['name']} | {size} | {_outcome(entry)} | {_listed(entry.get('primitives', {}))}"


def _outcome(entry: dict[str, Any]) -> str:
    if "refused" in entry:
        return f"MindSpore does not export it: {entry['refused']}"
    if "error" in entry:
        return "differs or fails: " + " ".join(entry["error"].split())
    if entry["unsupported"]:
        return f"not supported: {', '.join(entry['unsupported'])}"
    return f"matches, largest relative error {entry['gap']:.1e}" if "gap" in entry else "lowered"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts))
