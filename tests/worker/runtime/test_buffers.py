from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx_models import BF16, collective, graph, loaded, node

from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.partition.plan import Plan
from rankmesh.worker.runtime.buffers import BufferLifetime, allocate, pack

pytestmark = pytest.mark.pure

lifetimes = st.builds(
    lambda size, first, length: BufferLifetime(size, first, first + length),
    st.integers(0, 1000),
    st.integers(0, 10),
    st.integers(0, 5),
)


def together(a: BufferLifetime, b: BufferLifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


@given(st.lists(lifetimes, max_size=14))
def test_buffers_never_overlap_while_both_live(lives: list[BufferLifetime]) -> None:
    named = {f"v{i}": life for i, life in enumerate(lives)}
    offsets = pack(named)
    assert offsets.keys() == named.keys() and all(at % 64 == 0 for at in offsets.values())
    for name, life in named.items():
        for other, others in named.items():
            if name < other and together(life, others) and life.size and others.size:
                at, theirs = offsets[name], offsets[other]
                assert at + life.size <= theirs or theirs + others.size <= at


@given(st.lists(lifetimes, min_size=1, max_size=14))
def test_no_more_room_than_one_after_the_other(lives: list[BufferLifetime]) -> None:
    offsets = pack({f"v{i}": life for i, life in enumerate(lives)})
    total = max(offsets[f"v{i}"] + life.size for i, life in enumerate(lives))
    assert total <= sum(-(-life.size // 64) * 64 for life in lives)


def test_those_that_never_meet_share() -> None:
    offsets = pack(
        {
            "a": BufferLifetime(100, 0, 1),
            "b": BufferLifetime(90, 2, 3),
            "c": BufferLifetime(80, 1, 2),
        }
    )
    assert offsets == {"a": 0, "b": 0, "c": 128}


def chain(length: int, kind: str = "AllReduce", dtype: Any = np.float32, shape: Any = (4,)) -> Plan:
    """x -> Neg -> collective -> Neg -> collective ... -> y"""
    nodes, known, last = [], {}, "x"
    for i in range(length):
        nodes += [node("Neg", last, f"n{i}"), collective(kind, f"n{i}", f"r{i}")]
        known |= {f"n{i}": (dtype, shape), f"r{i}": (dtype, shape)}
        last = f"r{i}"
    return make_plan(
        loaded(
            [*nodes, node("Neg", last, "y")], {"x": (dtype, shape)}, {"y": (dtype, shape)}, known
        ),
        0,
        1,
    )


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_every_value_between_steps_has_a_buffer_but_inputs_and_outputs() -> None:
    buffers = allocate(chain(3))
    assert sorted(buffers) == ["n0", "n1", "n2", "r0", "r1", "r2"]
    assert {(b.shape, b.dtype) for b in buffers.values()} == {((4,), np.dtype(np.float32))}
    assert all(
        address(b) % 64 == 0 and b.flags.c_contiguous and b.flags.writeable
        for b in buffers.values()
    )


def test_a_chain_of_any_length_needs_two_buffers() -> None:
    buffers = allocate(chain(20))
    assert len({address(b) for b in buffers.values()}) == 2
    assert all(address(buffers[f"n{i}"]) == address(buffers[f"r{i}"]) for i in range(20))
    assert all(address(buffers[f"r{i}"]) != address(buffers[f"n{i + 1}"]) for i in range(19))


@pytest.mark.parametrize(
    ("kind", "shared"),
    [
        ("AllReduce", True),
        ("Broadcast", True),
        ("AllGather", False),
        ("Reduce", False),
        ("AllToAll", False),
    ],
)
def test_only_some_collectives_work_in_place(kind: str, shared: bool) -> None:
    buffers = allocate(chain(1, kind))
    assert (address(buffers["n0"]) == address(buffers["r0"])) == shared


def plan_of(nodes: list[Any], outputs: Any = None, **more: Any) -> Plan:
    known = {name: [4] for name in "abcdef"}
    return make_plan(loaded(nodes, {"x": [4]}, outputs or {"y": [4]}, known, **more), 0, 1)


def test_an_operand_that_is_read_again_is_not_written_over() -> None:
    buffers = allocate(
        plan_of([node("Neg", "x", "a"), collective("AllReduce", "a", "b"), node("Add", "a b", "y")])
    )
    assert not np.shares_memory(buffers["a"], buffers["b"])


def test_an_operand_that_a_later_branch_sees_is_not_written_over() -> None:
    then, other = (
        graph([node("Neg", "a", "t")], {}, {"t": [4]}),
        graph([node("Neg", "b", "e")], {}, {"e": [4]}),
    )
    choice = node("If", "go", "y", then_branch=then, else_branch=other)
    buffers = allocate(
        plan_of(
            [node("Neg", "x", "a"), collective("AllReduce", "a", "b"), choice],
            constants={"go": np.array(True)},
        )
    )
    assert not np.shares_memory(buffers["a"], buffers["b"])


def test_inputs_outputs_and_constants_are_not_written_over() -> None:
    plan = plan_of(
        [
            collective("AllReduce", "x", "a"),
            collective("AllReduce", "w", "b"),
            node("Neg", "a", "c"),
            collective("AllReduce", "c", "d"),
            node("Add", "b d", "y"),
        ],
        outputs={"y": [4], "c": [4]},
        constants={"w": np.ones(4, np.float32)},
    )
    assert sorted(allocate(plan)) == ["a", "b", "d"]


def test_one_operand_twice() -> None:
    buffers = allocate(
        plan_of(
            [node("Neg", "x", "a"), collective("Broadcast", "a a", "b c"), node("Add", "b c", "y")]
        )
    )
    names = sorted(buffers)
    assert names == ["a", "b", "c"]
    assert not [
        (p, q) for p in names for q in names if p < q and np.shares_memory(buffers[p], buffers[q])
    ]


def test_a_broadcast_of_several_works_in_place() -> None:
    plan = plan_of(
        [
            node("Neg", "x", "a"),
            node("Abs", "x", "b"),
            collective("Broadcast", "a b", "c d"),
            node("Add", "c d", "y"),
        ]
    )
    buffers = allocate(plan)
    assert (
        address(buffers["a"])
        == address(buffers["c"])
        != address(buffers["b"])
        == address(buffers["d"])
    )


def test_unknown_shapes_have_no_buffer() -> None:
    assert allocate(chain(2, shape=("n", 4))) == {} == allocate(chain(2, shape=None))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(np.bool_, (3,)), (BF16, (2, 3)), (np.float16, ()), (np.int64, (0, 4)), (np.float64, (1, 1))],
)
def test_any_type(dtype: Any, shape: Any) -> None:
    for buffer in allocate(chain(2, dtype=dtype, shape=shape)).values():
        assert buffer.shape == shape and buffer.dtype == np.dtype(dtype)


@given(st.data())
def test_values_of_any_plan_keep_apart(data: st.DataObject) -> None:
    """Whenever a step runs, what it writes must leave every value alone that it or a later step
    reads.
    """
    made, nodes = ["x"], []
    for i in range(data.draw(st.integers(1, 8))):
        source = data.draw(st.sampled_from(made))
        if data.draw(st.booleans()):
            nodes.append(
                collective(
                    data.draw(st.sampled_from(["AllReduce", "Broadcast", "Reduce"])),
                    source,
                    f"v{i}",
                )
            )
        else:
            nodes.append(node("Add", f"{source} {data.draw(st.sampled_from(made))}", f"v{i}"))
        made.append(f"v{i}")
    known = {name: [4] for name in made[1:]}
    plan = make_plan(loaded(nodes, {"x": [4]}, {made[-1]: [4]}, known), 0, 1)
    buffers = allocate(plan)
    for index, step in enumerate(plan.steps):
        read_later = {
            name for later in plan.steps[index + 1 :] for name in later.inputs
        } & buffers.keys()
        before = {name for earlier in plan.steps[:index] for name in earlier.outputs}
        for written in buffers.keys() & set(step.outputs):
            for other in (read_later & before) | (set(step.outputs) & buffers.keys()) - {written}:
                assert not np.shares_memory(buffers[written], buffers[other])
