"""One question of the ONNX fuzzer: a random model that is changed, and what each way makes of it.

Any file gives an error for the user, or the answer of onnxruntime: never a traceback.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from onnx_changes import changed
from unusual_models import RandomModel, random_model
from ways import Way
from ways_judged import judged_file

from rankmesh.comm.errors import RankmeshError
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.model_file.onnx_format import read_onnx

_LONGEST = 20_000


@dataclass
class Survived:
    """What became of a changed model.

    `parsed` says whether it is an ONNX file to the reader at all, `read` whether the reader takes
    what is in it, `ran` whether onnxruntime runs it. `kinds` has how each way ended; `faults`
    should be empty.
    """

    model: RandomModel
    changes: list[str]
    parsed: bool
    read: bool
    ran: bool
    kinds: dict[str, str]
    faults: list[str]


def survived(seed: int, ways: Mapping[str, Way]) -> Survived:
    """Change the model of a seed, and ask all ways."""
    random = Random(f"onnx {seed}")
    made = random_model(random, 5)
    changes = changed(made.model, random)
    with tempfile.TemporaryDirectory() as folder:
        path = made.write(Path(folder))
        parsed, read = _passes(read_onnx, path, False), _passes(load_model, path)
        found = judged_file(path, made.feeds, made.tolerance, ways)
    kinds = {name: one.kind for name, one in found.verdicts.items()}
    faults = [
        f"{name} {one.kind}: {one.text}"
        for name, one in found.verdicts.items()
        if one.kind in ("wrong", "fault") or one.kind == "refused" and not _is_sentence(one.text)
    ]
    return Survived(made, changes, parsed, read, found.ran, kinds, faults)


def _passes(read: Callable[..., object], path: Path, *more: object) -> bool:
    try:
        read(str(path), *more)
    except RankmeshError:
        return False
    return True


def _is_sentence(text: str) -> bool:
    """Whether an error is for a user: it says something, at bearable length, and no traceback."""
    return bool(re.search(r"\w+ \w+", text)) and len(text) < _LONGEST and "Traceback" not in text
