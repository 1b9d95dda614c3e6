"""ONNX files whose structure is changed: an error for the user, or the answer of onnxruntime.

`tests/fuzz/fuzz_onnx.py` asks as many as wanted, in a child process.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from fuzz_child import Child, ChildEnded
from onnx_changes import CHANGES
from unusual_models import random_model

pytest.importorskip("torch")

FUZZER = Path(__file__).parents[2] / "fuzz" / "fuzz_onnx.py"
_SEEDS = range(3000, 3040)
_LEAST_PARSED = 0.8
_PATIENCE = 280.0


def test_changed_models_give_an_error_or_the_right_answer(tmp_path: Path) -> None:
    child = Child(str(FUZZER), "--answer")
    found = []
    try:
        for seed in _SEEDS:
            question = json.dumps({"seed": seed, "ways": [], "found": str(tmp_path)})
            found.append(json.loads(child.ask(question, _PATIENCE)))
    finally:
        child.end()
    faults = {seed: one["faults"] for seed, one in zip(_SEEDS, found, strict=True)}
    assert {seed: texts for seed, texts in faults.items() if texts} == {}
    assert sum(one["parsed"] for one in found) >= _LEAST_PARSED * len(found)
    assert any(one["ran"] for one in found) and not all(one["ran"] for one in found)


def test_the_end_of_a_child_is_told() -> None:
    child = Child(str(FUZZER), "--answer")
    with pytest.raises(ChildEnded, match="exit status 1"):
        child.ask("no JSON", _PATIENCE)
    child.end()


@pytest.mark.pure
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_each_change_changes_some_model(change: object) -> None:
    assert callable(change)
    for seed in range(20):
        model = random_model(Random(seed)).model
        before = model.SerializeToString(deterministic=True)
        change(model, Random(seed))
        if model.SerializeToString(deterministic=True) != before:
            return
    raise AssertionError("none of 20 models has changed")
