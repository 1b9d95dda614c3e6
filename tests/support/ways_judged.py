"""Judgement of random models over all ways: the same answer or the same refusal by every way.

NATURAL lists the refusals that one way alone may have, with the reason.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from unusual_models import RandomModel
from ways import Verdict, Way, difference, oracle, verdict

NATURAL: tuple[tuple[str, str, str], ...] = (
    ("convert", r"sizes of what each turn gives are open", "MindIR's loops stack known sizes only"),
    ("convert", r"has no array for the inputs", "inputs of a MindIR have no default"),
)
"""The way (by its last word), what its text has, and why no other way refuses."""

_WRAPPED = re.compile(r"\A(?:\w+ failed! Error is |rank \d+ of \d+ on \S+: )+")
_PLACES = re.compile(r"\S*/(?:model|converted|shards)\S*:?|of rank \d+")


@dataclass
class Judged:
    """What all ways did with one model.

    `reasons` has the natural refusals, "WAY: REASON"; `wrong` the disagreements, a line each.
    """

    ran: bool
    """Whether onnxruntime alone runs the model."""
    verdicts: Mapping[str, Verdict]
    reasons: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """Whether each way answered that has no natural refusal."""
        kinds = [one.kind for name, one in self.verdicts.items() if not _natural(name, one)]
        return all(kind in ("right", "answered") for kind in kinds)


def judged(model: RandomModel, ways: Mapping[str, Way]) -> Judged:
    """Run a model by all ways."""
    with tempfile.TemporaryDirectory() as folder:
        path = model.write(Path(folder))
        return judged_file(path, model.feeds, model.tolerance, ways)


def judged_file(
    path: Path, feeds: Mapping[str, np.ndarray[Any, Any]], tolerance: float, ways: Mapping[str, Way]
) -> Judged:
    """Run a model file by all ways; beside it lies inputs.npz."""
    try:
        wanted = oracle(path, feeds)
    except Exception:  # onnxruntime's own exception classes have no common base
        wanted = None
    verdicts = {name: verdict(way, path, feeds, wanted, tolerance) for name, way in ways.items()}
    found = Judged(wanted is not None, verdicts)
    _compare(found, tolerance)
    return found


def _compare(found: Judged, tolerance: float) -> None:
    refusals: dict[str, list[str]] = {}
    for name, one in found.verdicts.items():
        reason = _natural(name, one)
        if reason:
            found.reasons.append(reason)
        elif one.kind == "refused":
            refusals.setdefault(plain(one.text), []).append(name)
        elif one.kind in ("wrong", "fault"):
            found.wrong.append(f"{name} {one.kind}: {one.text}")
    if not found.ran:
        found.wrong += _unlike(found, tolerance)
    elif len(refusals) > 1 or refusals and any(one.answers for one in found.verdicts.values()):
        found.wrong += [f"{', '.join(names)} refused: {text}" for text, names in refusals.items()]
    elif refusals:
        found.reasons.append(f"all: {next(iter(refusals))}")


def _unlike(found: Judged, tolerance: float) -> list[str]:
    """The answers that differ, of a model that onnxruntime alone refuses."""
    answers = [(name, one.arrays) for name, one in found.verdicts.items() if one.answers]
    return [
        f"{name} unlike {answers[0][0]}: {text}"
        for name, arrays in answers[1:]
        if (text := difference(arrays, answers[0][1], tolerance))
    ]


def _natural(way: str, one: Verdict) -> str:
    """The natural refusal that a verdict is, or ""."""
    if one.kind == "refused":
        for name, pattern, reason in NATURAL:
            if way.split()[-1] == name and re.search(pattern, one.text):
                return f"{way}: {reason}"
    return ""


def plain(text: str) -> str:
    """The text of a refusal without what says which way it was: the call, the file and the rank."""
    return _PLACES.sub("FILE", _WRAPPED.sub("", text)).strip()
