"""Plan files: what is written is read back, and what is wrong is named."""

import json

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placement_text import placement_of
from rankmesh.compiler.slicing.placement.placements import MAX, SUM, WHOLE, Split, Windows
from rankmesh.compiler.slicing.placement.plan_file import PlanFile, plan_of, plan_text, read_plan
from rankmesh.compiler.slicing.placement.slice_plan import Conversion, SlicePlan

pytestmark = pytest.mark.pure

COLUMNS = Split(1, (0, 3, 8))
FUSED = Split(0, (0, 2, 4), (4, 1, 1))
ROWS = Windows(2, (0, 3), (5, 8))
PLAN = SlicePlan(
    2,
    {"up": Strategy((WHOLE, COLUMNS), (COLUMNS,)), "qkv": Strategy((MAX, FUSED), (SUM,))},
    (Conversion("h", SUM, WHOLE), Conversion("x", WHOLE, COLUMNS)),
    2,
    {"qkv": 1, "norm": 1},
    frozenset({"mask"}),
)


@pytest.mark.parametrize("placement", [WHOLE, SUM, MAX, COLUMNS, FUSED, ROWS])
def test_the_text_of_a_placement_is_read_back(placement):
    assert placement_of(str(placement), 2) == placement


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("split(axis=1, bounds=[0, 4])", "2 ranks need 3"),
        ("split(axis=1, bounds=[0, 4, 4])", "no rank has an empty part"),
        ("split(axis=1, bounds=[1, 4, 8])", "begin with 0"),
        ("split(axis=0, bounds=[0, 1, 2], ratios=[0])", "at least 1"),
        ("split(axis=0, bounds=[0, 1, 99999999999999])", "larger than any axis"),
        ("windows(axis=2, starts=[0], stops=[5])", "2 ranks need 2 of each"),
        ("windows(axis=2, starts=[0, 5], stops=[5, 5])", "greater than its start"),
        ("sliced", "no placement"),
        (7, "a placement is a text"),
    ],
)
def test_a_wrong_placement_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        placement_of(text, 2)


def test_a_plan_is_read_back_as_it_was_written(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan_text(PlanFile(PLAN, "m.onnx", "f00", {"batch": 2}), {"up": "MatMul"}))
    found = read_plan(str(path))
    assert found == PlanFile(PLAN, "m.onnx", "f00", {"batch": 2}, {"up": "MatMul"})
    nodes = json.loads(path.read_text())["nodes"]
    assert nodes["up"]["operator"] == "MatMul"
    assert (nodes["norm"]["stage"], nodes["mask"]["stage"]) == (1, "every")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "other"}, "has the format 'other'"),
        ({"ranks": 0}, "stages of 0 ranks"),
        ({"ranks": 3}, "node up: inputs: .* 3 ranks need 4"),
        ({"extra": 1}, "unknown field `extra`"),
        ({"stages": 1}, "node qkv: stage 1 of 1 stages"),
        ({"conversions": [{"value": "h", "before": "?", "after": "replicated"}]}, "conversions: "),
    ],
)
def test_a_wrong_field_is_named(change, reason):
    text = plan_text(PlanFile(PLAN, "m.onnx", "f00"), {})
    with pytest.raises(UsageError, match=f"edited.json: .*{reason}"):
        plan_of(json.dumps({**json.loads(text), **change}), "edited.json")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_plan_is_refused(data):
    with pytest.raises(UsageError, match="is no plan"):
        plan_of(data, "edited.json")
