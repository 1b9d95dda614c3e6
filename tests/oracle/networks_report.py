"""The journal of networks.py, and the list that it commits."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any


class Journal:
    """A file with one line per network that was done; of several with one name the last counts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def latest(self) -> dict[str, dict[str, Any]]:
        """What became of each network."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return {entry["name"]: entry for entry in map(json.loads, lines)}

    def add(self, entry: dict[str, Any]) -> None:
        """Note what became of a network, and say it."""
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print({key: entry[key] for key in entry if key != "primitives"}, flush=True)


def report(latest: dict[str, dict[str, Any]]) -> str:
    """One line per network with what became of it and its primitives; above them the union."""
    entries = [latest[name] for name in sorted(latest, key=str.lower)]
    union: Counter[str] = Counter()
    for entry in entries:
        union.update(entry.get("primitives", {}).keys())
    gaps = [entry["gap"] for entry in entries if "gap" in entry]
    lines = [
        f"# {len(entries)} of the 275 networks of mindcv 0.3 by name, random weights; written "
        "by networks.py, which",
        "# goes on with the others (--run-rest). VOLO and HaloNet are only lowered: MindSpore's "
        "CPU has no",
        "# ExtractImagePatches.",
        "# NAME | INPUT | what became of it | primitives with their number of nodes",
        f"# lowered: {sum('primitives' in e and not e['unsupported'] for e in entries)}; "
        f"also run by MindSpore and matched: {len(gaps)}, largest relative error "
        f"{max(gaps, default=0.0):.1e}; "
        f"not exported by MindSpore: {sum('refused' in e for e in entries)}",
        f"# {len(union)} primitives, each with the number of networks that use it: "
        f"{_listed(union)}",
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
    if "gap" in entry:
        return f"matches, largest relative error {entry['gap']:.1e}"
    reason = re.sub(r"\s*-{4,}\s*", " ", entry.get("unrun", "")).strip()[:100]
    return f"lowered; MindSpore did not run it: {reason}" if reason else "lowered"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts))
