from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_models import collective, loaded, node

from rankmesh.comm.errors import ModelError, ShardMismatch
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.partition.fingerprint import Fingerprint, Operand, fingerprint
from rankmesh.worker.partition.shard_check import check_shards

pytestmark = pytest.mark.pure

Nodes = Sequence[Any]


def prints(
    *ranks: Nodes, shapes: Sequence[Any] | None = None, inputs: Sequence[Any] = ()
) -> list[Fingerprint]:
    """The fingerprints of shards as the ranks exchange them; each takes x."""
    found = []
    for rank, nodes in enumerate(ranks):
        takes = inputs[rank] if inputs else {"x": shapes[rank] if shapes else [4]}
        model = loaded([*nodes, node("Relu", next(iter(takes)), "out")], takes, {"out": None})
        plan = make_plan(model, rank, len(ranks))
        one = msgspec.structs.replace(fingerprint(plan, rank), path=f"m{rank}.onnx")
        found.append(msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Fingerprint))
    return found


def refusal(*ranks: Nodes, **more: Any) -> str:
    with pytest.raises(ShardMismatch) as caught:
        check_shards(prints(*ranks, **more))
    return str(caught.value)


def reduce_sum(name: str = "y", x: str = "x", **more: Any) -> Any:
    return collective("AllReduce", x, name, **more)


def send(to: int, **more: Any) -> Any:
    return collective("Send", more.pop("x", "x"), "", to=to, **more)


def receive(
    source: int,
    name: str = "r",
    shape: Sequence[int] = (4,),
    dtype: int = TensorProto.FLOAT,
    **more: Any,
) -> Any:
    return collective("Receive", "", name, source=source, shape=list(shape), dtype=dtype, **more)


def ring(size: int, **received: Any) -> list[Fingerprint]:
    """Everybody sends right and left; `received` may change what a rank expects of its left
    neighbour.
    """
    found = []
    for rank in range(size):
        right, left = (rank + 1) % size, (rank - 1) % size
        both = collective(
            "NeighborExchange", "x x", "a b", sends_to=[right, left], receives_from=[left, right]
        )
        one = loaded(
            [both, node("Relu", "x", "out")],
            {"x": [4]},
            {"out": [4]},
            {"a": received.get(f"rank{rank}", [4]), "b": [4]},
        )
        found.append(
            msgspec.structs.replace(
                fingerprint(make_plan(one, rank, size), rank), path=f"m{rank}.onnx"
            )
        )
    return found


# What is legal.

LEGAL: dict[str, Callable[[], list[Fingerprint]]] = {
    "no collective at all": lambda: prints([], [], []),
    "one rank": lambda: prints([reduce_sum(), collective("AllGather", "y", "z")]),
    "tensor parallel": lambda: prints(
        *[[reduce_sum("a"), reduce_sum("b", "a", reduction="max")]] * 3
    ),
    "inputs of different shapes": lambda: prints([], [], shapes=[[4], [2, 7]]),
    "unknown dimensions": lambda: prints(*[[reduce_sum()]] * 3, shapes=[["n"], [4], None]),
    "sub-groups": lambda: prints(
        *[
            [
                reduce_sum("a", group=f"tp{r // 2}", ranks=[r // 2 * 2, r // 2 * 2 + 1]),
                collective("AllGather", "a", "b", group=f"dp{r % 2}", ranks=[r % 2, r % 2 + 2]),
            ]
            for r in range(4)
        ]
    ),
    "a group of some ranks only": lambda: prints(
        [reduce_sum(ranks=[0, 2])], [], [reduce_sum(ranks=[0, 2])]
    ),
    "groups of another name": lambda: prints(
        *[[reduce_sum(group=name, ranks=[0, 1])] for name in "ab"]
    ),
    "members in an order of their own": lambda: prints(
        *[[collective("Reduce", "x", "y", ranks=[1, 0], root=1)]] * 2
    ),
    "pipeline": lambda: prints([send(1)], [receive(0), send(2, x="r")], [receive(1)]),
    "pipeline there and back": lambda: prints([send(1), receive(1)], [receive(0), send(0, x="r")]),
    "two in a row, by tag": lambda: prints(
        [send(1, tag=1), send(1, tag=2)], [receive(0, "a", tag=1), receive(0, "b", tag=2)]
    ),
    "ring": lambda: ring(3),
    "recorded positions": lambda: prints(
        *[[collective("CollectiveGather", "x", "y", position=r)] for r in range(2)]
    ),
    "own position in a sub-group": lambda: prints(
        [], *[[reduce_sum(ranks=[2, 1], position=2 - r)] for r in (1, 2)]
    ),
    "pipeline of tensor-parallel stages": lambda: prints(
        *[[reduce_sum("a", ranks=[0, 1]), send(r + 2, x="a")] for r in (0, 1)],
        *[[receive(r), reduce_sum("b", "r", ranks=[2, 3])] for r in (0, 1)],
    ),
    "a broadcast of several": lambda: prints(
        *[[collective("Broadcast", "x x", "a b", root=1)]] * 2
    ),
    "shapes elsewhere than at the root": lambda: prints(
        *[[collective("Reduce", "x", "y", root=1)]] * 2
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name: str) -> None:
    check_shards(LEGAL[name]())


# Inputs.


@pytest.mark.parametrize(
    "second", [{"z": [4]}, {"y": [4], "x": [4]}, {"x": [4]}, {"x": [4], "y": [4], "z": [4]}]
)
def test_names_and_order_of_inputs(second: dict[str, Any]) -> None:
    said = refusal([], [], inputs=[{"x": [4], "y": [4]}, second])
    assert (
        f"m1.onnx (rank 1) has the inputs {list(second)}, and m0.onnx (rank 0) has ['x', 'y']"
        in said
    )


# Collectives of a group.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (reduce_sum(), collective("AllGather", "x", "y")),
        (reduce_sum(), reduce_sum(reduction="max")),
        (collective("Broadcast", "x", "y", root=0), collective("Broadcast", "x", "y", root=1)),
        (collective("Broadcast", "x", "y"), collective("Broadcast", "x x", "y z")),
    ],
)
def test_another_collective(first: Any, second: Any) -> None:
    said = refusal([first], [second])
    assert "m0.onnx (rank 0) and m1.onnx (rank 1) disagree on a collective" in said
    assert (
        f"{first.op_type} {first.op_type} y" in said
        and f"{second.op_type} {second.op_type} y" in said
    )


@pytest.mark.parametrize(
    "kind",
    [
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "AllToAll",
        "Broadcast",
        "Reduce",
        "CollectiveGather",
        "CollectiveScatter",
    ],
)
@pytest.mark.parametrize("shape", [[8], [4, 1], [4, "n"]])
def test_another_shape(kind: str, shape: Any) -> None:
    said = refusal([collective(kind, "x", "y")], [collective(kind, "x", "y")], shapes=[[4], shape])
    assert "float32[4]" in said and "disagree" in said


def test_another_dtype() -> None:
    nodes = [collective("AllReduce", "x", "y")]
    said = refusal(nodes, nodes, inputs=[{"x": [4]}, {"x": (np.float64, [4])}])
    assert "float32[4]" in said and "float64[4]" in said


@pytest.mark.parametrize("swapped", [False, True])
def test_a_collective_that_another_lacks(swapped: bool) -> None:
    ranks: list[Nodes] = [[reduce_sum("a"), reduce_sum("b")], [reduce_sum("a")]]
    said = refusal(*(ranks[::-1] if swapped else ranks))
    has, lacks = ("1", "0") if swapped else ("0", "1")
    assert (
        f"m{has}.onnx (rank {has}) has the collective AllReduce AllReduce b, which m{lacks}.onnx"
        in said
    )


def test_a_rank_that_does_not_know_its_group() -> None:
    said = refusal([], [], [reduce_sum(ranks=[1, 2])])
    assert "m2.onnx (rank 2) has the collective" in said and "m1.onnx (rank 1) lacks" in said


def test_another_order_of_members() -> None:
    said = refusal([reduce_sum(group="g", ranks=[0, 1])], [reduce_sum(group="g", ranks=[1, 0])])
    assert "members of the group 'g' as [0, 1] and [1, 0]" in said


def test_another_order_of_collectives() -> None:
    both = [reduce_sum("a"), collective("AllGather", "x", "b")]
    assert "disagree" in refusal(both, both[::-1])


def test_a_shard_given_to_another_rank() -> None:
    with pytest.raises(
        ModelError, match="given to rank 0, member 0 of the group 'g', but was written for member 1"
    ):
        prints(*[[reduce_sum(group="g", ranks=[0, 1], position=1 - r)] for r in (0, 1)])


# Pairs.


@pytest.mark.parametrize(
    ("first", "second", "phrase"),
    [
        ([send(1)], [], "sends rank 1 1 tensors, and m1.onnx (rank 1) receives 0"),
        (
            [],
            [receive(0)],
            "m0.onnx (rank 0) sends rank 1 0 tensors, and m1.onnx (rank 1) receives 1",
        ),
        ([send(1)], [receive(0), receive(0, "s")], "each Send needs its Receive"),
        (
            [send(1, tag=1)],
            [receive(0, tag=2)],
            "with tag 1, and m1.onnx (rank 1) receives float32[4] with tag 2",
        ),
        ([send(1)], [receive(0, shape=(5,))], "sends rank 1 float32[4] with tag 0"),
        ([send(1)], [receive(0, dtype=TensorProto.INT32)], "receives int32[4]"),
        (
            [send(1, tag=1), send(1, tag=2)],
            [receive(0, "a", tag=2), receive(0, "b", tag=1)],
            "with tag 1",
        ),
        ([send(0)], [receive(0)], "m0.onnx (rank 0) sends rank 0 1 tensors"),
    ],
)
def test_sends_without_their_receives(first: Nodes, second: Nodes, phrase: str) -> None:
    assert phrase in refusal(first, second)


def test_a_send_to_the_wrong_rank() -> None:
    assert "m0.onnx (rank 0) sends rank 1 0 tensors, and m1.onnx" in refusal(
        [send(2)], [receive(0)], []
    )


def test_neighbors_that_do_not_agree() -> None:
    ranks = ring(3, rank1=[5])
    with pytest.raises(
        ShardMismatch,
        match=r"m0.onnx \(rank 0\) sends rank 1 float32\[4\] .* receives float32\[5\]",
    ):
        check_shards(ranks)
    ranks = ring(3)
    without = msgspec.structs.replace(ranks[2], entries=())
    with pytest.raises(ShardMismatch, match="each Send needs its Receive"):
        check_shards([*ranks[:2], without])


# Waiting for ever.


def stuck(*ranks: Nodes, **more: Any) -> str:
    said = refusal(*ranks, **more)
    assert "would wait for each other for ever" in said
    return said


def test_two_that_receive_first() -> None:
    said = stuck([receive(1), send(1)], [receive(0), send(0)])
    assert "m0.onnx (rank 0) in Receive Receive r; m1.onnx (rank 1) in Receive Receive r" in said


def test_groups_in_another_order() -> None:
    a, b = reduce_sum("a", ranks=[0, 1, 2]), reduce_sum("b", ranks=[0, 1])
    said = stuck([a, b], [b, a], [a])
    assert all(f"(rank {rank}) in AllReduce" in said for rank in range(3))


def test_a_ring_of_groups() -> None:
    pairs = [[0, 1], [1, 2], [2, 0]]
    ranks = [
        [reduce_sum(f"g{i}", ranks=pairs[i]) for i in order] for order in ((0, 2), (1, 0), (2, 1))
    ]
    stuck(*ranks)
    check_shards(
        prints(
            *[
                [reduce_sum(f"g{i}", ranks=pairs[i]) for i in sorted(order)]
                for order in ((0, 2), (0, 1), (1, 2))
            ]
        )
    )


def test_a_receive_before_the_collective_that_the_sender_is_in() -> None:
    stuck([reduce_sum("a"), send(1)], [receive(0), reduce_sum("a")])
    check_shards(prints([send(1), reduce_sum("a")], [receive(0), reduce_sum("a")]))


# What a Send may leave behind.

MIB = 1 << 18  # elements of float32
BIG = MIB + 1


def crossing(count: int, elements: int) -> list[Fingerprint]:
    """Both ranks send all they have before they receive anything."""
    ranks = [
        [*[send(1 - r)] * count, *[receive(1 - r, f"r{i}", (elements,)) for i in range(count)]]
        for r in (0, 1)
    ]
    return prints(*ranks, shapes=[[elements]] * 2)


@pytest.mark.parametrize(("count", "elements"), [(1, MIB), (2, 1), (2, MIB // 2), (1, 0)])
def test_both_may_send_first_what_fits_the_mailbox(count: int, elements: int) -> None:
    check_shards(crossing(count, elements))


@pytest.mark.parametrize(("count", "elements"), [(1, BIG), (3, 1), (2, MIB // 2 + 1)])
def test_both_sending_first_what_does_not_fit_is_refused(count: int, elements: int) -> None:
    with pytest.raises(
        ShardMismatch,
        match=r"m0.onnx \(rank 0\) in Send .* unless what is under way fits into "
        r"2 chunks of 524288 bytes: place the Receive",
    ):
        check_shards(crossing(count, elements))


def test_sizes_that_are_not_known_count_as_too_much() -> None:
    with pytest.raises(ShardMismatch, match="for ever"):
        check_shards(
            prints(*[[send(1 - r), receive(1 - r)] for r in (0, 1)], shapes=[["n"], ["n"]])
        )


@pytest.mark.parametrize("implementation", ["mpi", "gloo", "nccl", "hccl"])
def test_other_implementations_may_leave_nothing_behind(implementation: str) -> None:
    with pytest.raises(
        ShardMismatch, match=f"collectives {implementation} a Send waits for its Receive: place"
    ):
        check_shards(crossing(1, 1), implementation)
    for name in ("pipeline there and back", "ring", "two in a row, by tag", "one rank"):
        check_shards(LEGAL[name](), implementation)


def test_one_of_them_receiving_first_is_enough() -> None:
    for implementation in ("shared_memory", "mpi"):
        check_shards(
            prints(
                [send(1), receive(1, shape=(BIG,))],
                [receive(0, shape=(BIG,)), send(0)],
                shapes=[[BIG]] * 2,
            ),
            implementation,
        )


def test_a_large_send_before_a_collective_whose_receive_comes_after_it() -> None:
    ranks: list[Nodes] = [[send(1), reduce_sum("a")], [reduce_sum("a"), receive(0, shape=(BIG,))]]
    with pytest.raises(ShardMismatch, match=r"rank 0\) in Send .*rank 1\) in AllReduce"):
        check_shards(prints(*ranks, shapes=[[BIG]] * 2))


def test_a_neighbor_exchange_has_a_neighbor_exchange_as_partner() -> None:
    both = collective("NeighborExchange", "x", "a", sends_to=[1], receives_from=[1])
    one = loaded([both, node("Relu", "x", "out")], {"x": [4]}, {"out": [4]}, {"a": [4]})
    first = msgspec.structs.replace(fingerprint(make_plan(one, 0, 2), 0), path="m0.onnx")
    with pytest.raises(
        ShardMismatch,
        match=r"float32\[4\] by NeighborExchange, and m1.onnx \(rank 1\) receives float32"
        r"\[4\] with tag 0",
    ):
        check_shards([first, prints([], [receive(0), send(0)])[1]])


@given(st.data())
def test_shards_of_one_run_always_fit(data: st.DataObject) -> None:
    """Any sequence of events that all ranks see in one order can be run."""
    world = data.draw(st.integers(2, 4))
    ranks: list[list[Any]] = [[] for _ in range(world)]
    for event in range(data.draw(st.integers(0, 6))):
        members = data.draw(st.lists(st.integers(0, world - 1), unique=True, min_size=2))
        if data.draw(st.booleans()):
            kind = data.draw(st.sampled_from(["AllReduce", "AllGather", "Broadcast"]))
            for rank in members:
                ranks[rank].append(collective(kind, "x", f"e{event}", ranks=members))
        else:
            ranks[members[0]].append(send(members[1]))
            ranks[members[1]].append(receive(members[0], f"e{event}"))
    for implementation in ("shared_memory", "mpi"):
        check_shards(prints(*ranks), implementation)


@given(st.data())
def test_a_shard_that_lost_a_collective_never_fits(data: st.DataObject) -> None:
    world, count = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 4))
    ranks = [[reduce_sum(f"e{i}") for i in range(count)] for _ in range(world)]
    del ranks[data.draw(st.integers(0, world - 1))][data.draw(st.integers(0, count - 1))]
    assert "lacks" in refusal(*ranks)


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        ((4,), (4,), True),
        ((4,), (5,), False),
        ((-1,), (5,), True),
        ((4, -1), (-1, 3), True),
        ((4,), (4, 1), False),
        (None, (4,), True),
        ((4, 2), None, True),
        ((), (), True),
        ((), (1,), False),
        ((0,), (-1,), True),
    ],
)
def test_operands(a: Any, b: Any, fits: bool) -> None:
    one, other = Operand("float32", a), Operand("float32", b)
    assert one.fits(other) == other.fits(one) == fits
    assert not Operand("float32", a).fits(Operand("float16", b))
    assert str(Operand("int8", a)) == ("int8[?]" if a is None else f"int8{list(a)}")
