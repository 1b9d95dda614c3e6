"""Joined builds: they compute the same as builds whose segments are optimized one by one.

The other rank is played: it gives what this one gives.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx_models import collective, model, node

from rankmesh.comm.collective_call import Kind
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.rendezvous import SingleRank
from rankmesh.worker.cache.build_cache import Build, read_build
from rankmesh.worker.cache.kept_build import write_entry
from rankmesh.worker.cache.settings import CacheLocation
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.precise import Precision, PrecisionExecutor
from rankmesh.worker.image_layout.joined_segment import joined_segment
from rankmesh.worker.image_layout.layout_offer import LayoutOffer
from rankmesh.worker.partition.plan import CollectiveStep, Segment
from rankmesh.worker.runtime.joined_build import joined_build
from rankmesh.worker.runtime.opening import open_twins
from rankmesh.worker.runtime.program_spec import ProgramSpec

_CHANNELS = 32
_RANK = Rank(0, 2, 0, 2, "here", 0)
_APART = msgspec.msgpack.encode(LayoutOffer())
Arrays = dict[str, np.ndarray]


class PlayedRanks(SingleRank):
    """The rendezvous of rank 0 with one that answers `others`, or as rank 0 does."""

    def __init__(self, *others: bytes) -> None:
        super().__init__(_RANK)
        self._others = [*others]

    def exchange(self, payload: bytes) -> list[bytes]:
        return [payload, self._others.pop(0) if self._others else payload]


@pytest.fixture(scope="module", params=[2, 3], ids=["rows", "columns"])
def shard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("shard"), request.param, [0, 1])


def saved(folder: Path, axis: int, ranks: list[int]) -> str:
    """A part of a residual network: two blocks exchange a row, or a column, of their images."""
    size = [2, 3, 6, 7]
    random = np.random.default_rng(5)

    def weight(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32) / 10

    image = [2, _CHANNELS, *size[2:]]
    constants = {
        "first": weight(_CHANNELS, 3, 1, 1),
        "one": weight(_CHANNELS, _CHANNELS, 1, 1),
        "three": weight(_CHANNELS, _CHANNELS, 3, 3),
        "last": np.array([size[axis] - 1]),
        "from": np.array([2 * len(ranks) - 2]),
        "to": np.array([2 * len(ranks)]),
        "axis": np.array([0]),
    }
    blocks = [one for n in (1, 2) for one in _block(n, axis, ranks)]
    nodes = [node("Conv", "x first", "x0"), *blocks]
    made = model(nodes, {"x": size}, {"x2": image}, constants=constants)
    place = folder / "shard.onnx"
    onnx.save(made, place)
    return str(place)


def _block(n: int, axis: int, ranks: list[int]) -> list[NodeProto]:
    pads = [1, 1, 0, 1] if axis == 2 else [1, 1, 1, 0]
    return [
        node("Conv", f"x{n - 1} one", f"a{n}"),
        node("Relu", f"a{n}", f"b{n}"),
        node("Gather", f"b{n} last", f"edge{n}", axis=axis),
        collective("AllGather", f"edge{n}", f"edges{n}", ranks=ranks),
        node("Slice", f"edges{n} from to axis", f"other{n}"),
        node("Concat", f"b{n} other{n}", f"window{n}", axis=axis),
        node("Conv", f"window{n} three", f"c{n}", pads=pads),
        node("Add", f"c{n} x{n - 1}", f"d{n}"),
        node("Relu", f"d{n}", f"x{n}"),
    ]


@pytest.fixture(scope="module")
def executor() -> PrecisionExecutor:
    return PrecisionExecutor(OnnxRuntime(), Precision())


def build_of(shard: str, executor: PrecisionExecutor) -> Build:
    return read_build(shard, _RANK, executor, None, None, None)


def outputs(build: Build) -> Arrays:
    """The values of all operands and outputs."""
    plan = build.run or build.plan
    random = np.random.default_rng(7)
    values = {"x": random.standard_normal(plan.inputs[0].type.shape or (), np.float32)}
    found = {}
    for step in plan.steps:
        if isinstance(step, Segment):
            made = build.load(step).run(
                [values[n] for n in step.inputs], [None] * len(step.outputs)
            )
            values.update(zip(step.outputs, made, strict=True))
        elif isinstance(step, CollectiveStep):
            found.update((name, values[name]) for name in step.inputs)
            operand = values[step.inputs[0]]
            both = (
                2 * operand if step.call.kind is Kind.ALL_REDUCE else np.concatenate([operand] * 2)
            )
            values[step.outputs[0]] = both
    return {**found, "x2": values["x2"]}


def assert_alike(build: Build, other: Build, in_layout: int = 0) -> None:
    """Assert that outputs are alike, and operands but for `in_layout` of them."""
    found, expected = outputs(build), outputs(other)
    same = found.keys() & expected.keys()
    assert len(expected) == len(found) == len(same) + in_layout
    for name in same:
        array = expected[name]
        np.testing.assert_allclose(found[name], array, atol=1e-5 * np.abs(array).max(), rtol=0)


def test_images_stay_in_the_layout(shard: str, executor: PrecisionExecutor) -> None:
    build = build_of(shard, executor)
    joined = joined_build(build, executor, PlayedRanks(_APART))
    assert joined.run is not None and len(joined.run.collectives) == 2
    assert_alike(joined, build)
    reordered = [
        value.name
        for segment in joined.run.segments
        for value in (*segment.model.graph.input, *segment.model.graph.output)
        if value.name.startswith(("b", "x1", "window"))
    ]
    assert not reordered  # of what passes from one segment to the next, only edges are in ONNX's


def test_ranks_that_agree_exchange_images_in_the_layout(
    shard: str, executor: PrecisionExecutor
) -> None:
    build = build_of(shard, executor)
    assert_alike(joined_build(build, executor, PlayedRanks()), build, in_layout=2)


def test_where_a_rank_fails_after_all_none_exchanges_in_the_layout(
    shard: str, executor: PrecisionExecutor
) -> None:
    build = build_of(shard, executor)
    agreeing = PlayedRanks()
    mine: list[bytes] = []
    agreeing.exchange = lambda payload: mine.append(payload) or [payload] * 2  # type: ignore[method-assign, func-returns-value]
    joined_build(build, executor, agreeing)
    assert joined_build(build, executor, PlayedRanks(mine[0], b"failed")) is build


def exchanging(folder: Path, nodes: list[NodeProto], out: list[int]) -> str:
    """A shard in which `nodes` make c of the images a, and two convolutions are around them."""
    random = np.random.default_rng(5)
    constants = {
        name: random.standard_normal((channels, before, 1, 1), np.float32) / 10
        for name, channels, before in (("w0", _CHANNELS, 3), ("w1", 8, out[1]))
    }
    numbers = {"0": 0, "1": 1, "2": 2, "3": 3, "6": 6}
    constants.update({f"n{name}": np.array([number]) for name, number in numbers.items()})
    constants["together"] = np.array([1, -1, 0, 0])
    ends = [node("Conv", "x w0", "a"), *nodes, node("Conv", "c w1", "x2")]
    sizes = [1, 8, *out[2:]]
    place = folder / "shard.onnx"
    onnx.save(model(ends, {"x": [1, 3, 6, 7]}, {"x2": sizes}, constants=constants), place)
    return str(place)


_SUM = collective("AllReduce", "a", "b", ranks=[0, 1])
_GATHER = collective("AllGather", "a", "b", ranks=[0, 1])
_PARTS = [
    node("Slice", "b n0 n1 n0", "first"),
    node("Slice", "b n1 n2 n0", "second"),
    node("Concat", "first second", "c", axis=2),
]
_CASES = {
    "sum": ([_SUM, node("Relu", "b", "c")], [1, 32, 6, 7]),
    "channels": ([_GATHER, node("Reshape", "b together", "c")], [1, 64, 6, 7]),
    "rows": ([_GATHER, *_PARTS], [1, 32, 12, 7]),
    "fewer rows": (
        [_GATHER, _PARTS[0], node("Slice", "b n1 n2 n0", "second"),
         node("Slice", "second n0 n3 n2", "some"), node("Concat", "first some", "c", axis=2)],
        [1, 32, 9, 7],
    ),
    "images": ([_GATHER, node("Clip", "b", "c")], [2, 32, 6, 7]),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_kinds_of_exchanges_of_images(
    name: str, executor: PrecisionExecutor, tmp_path: Path
) -> None:
    nodes, out = _CASES[name]
    build = build_of(exchanging(tmp_path, nodes, out), executor)
    joined = joined_build(build, executor, PlayedRanks())
    assert joined.run is not None
    assert_alike(joined, build, in_layout=1)


@pytest.mark.parametrize("operator", ["Sigmoid", "Neg"])
def test_a_result_that_is_needed_outside_of_the_layout_does_not_come_in_it(
    operator: str, executor: PrecisionExecutor, tmp_path: Path
) -> None:
    nodes = [_SUM, node(operator, "b", "d"), node("Mul", "b d", "c")]
    build = build_of(exchanging(tmp_path, nodes, [1, 32, 6, 7]), executor)
    assert_alike(joined_build(build, executor, PlayedRanks()), build)


def test_a_result_that_another_collective_takes_does_not_come_in_the_layout(
    executor: PrecisionExecutor, tmp_path: Path
) -> None:
    nodes = [_SUM, collective("AllReduce", "b", "c", ranks=[0, 1])]
    build = build_of(exchanging(tmp_path, nodes, [1, 32, 6, 7]), executor)
    assert_alike(joined_build(build, executor, PlayedRanks()), build)


def test_a_kept_build_is_joined_from_its_file(
    shard: str, executor: PrecisionExecutor, tmp_path: Path
) -> None:
    build = build_of(shard, executor)
    write_entry(tmp_path, build.plan, executor)
    place = tmp_path / "joined.onnx"
    assert sorted(one.name for one in tmp_path.glob("*.onnx")) == [place.name]
    kept = joined_build(build._replace(joined=str(place)), executor, PlayedRanks())
    assert kept.run is not None
    assert_alike(kept, build, in_layout=2)
    place.write_bytes(b"damaged")
    assert joined_build(build._replace(joined=str(place)), executor, PlayedRanks()).run is None


def wait_until_kept() -> None:
    for thread in threading.enumerate():
        if thread.name == "rankmesh-model-cache":
            thread.join(60)


def test_programs_of_one_process_take_the_joined_build_of_the_cache(tmp_path: Path) -> None:
    shard, rank = saved(tmp_path, 2, [0]), Rank(0, 1, 0, 1, "here", 0)
    spec = ProgramSpec(shard, cache=CacheLocation(str(tmp_path / "cache"), 1 << 30))
    image = {"x": np.random.default_rng(7).standard_normal((2, 3, 6, 7), np.float32)}
    alone, *_ = opened = open_twins([msgspec.structs.replace(spec, cache=None)], SingleRank(rank))
    for kept in (False, True, True):
        twins = open_twins([spec, spec], SingleRank(rank))
        opened += twins
        assert [twin.kept for twin in twins] == [kept, kept]
        for twin in twins:
            np.testing.assert_array_equal(twin.predict(image)["x2"], alone.predict(image)["x2"])
        wait_until_kept()
    for program in opened:
        program.close()


@pytest.mark.parametrize("many", [False, True], ids=["small", "large"])
def test_what_onnxruntime_folds_reaches_collectives_and_outputs(many: bool, tmp_path: Path) -> None:
    """`m` is computed from weights alone; a collective takes it, and it is an output."""
    random = np.random.default_rng(3)
    shape = [1, _CHANNELS, 6, 7] if many else [1, _CHANNELS, 1, 1]
    weights = {
        "v": random.standard_normal(shape, np.float32),
        "w0": random.standard_normal((_CHANNELS, 3, 1, 1), np.float32),
        "w1": random.standard_normal((8, _CHANNELS, 1, 1), np.float32),
    }
    nodes = [
        node("Conv", "x w0", "a"),
        node("Mul", "v v", "m"),
        collective("AllGather", "m", "n", ranks=[0]),
        node("Add", "a n", "c"),
        node("Conv", "c w1", "x2"),
    ]
    outputs = {"x2": [1, 8, 6, 7], "m": shape}
    place = tmp_path / "shard.onnx"
    onnx.save(model(nodes, {"x": [1, 3, 6, 7]}, outputs, constants=weights), place)
    spec = ProgramSpec(str(place), cache=CacheLocation(str(tmp_path / "cache"), 1 << 30))
    image = random.standard_normal((1, 3, 6, 7), np.float32)
    squares = weights["v"] ** 2
    added = np.einsum("bchw,oc->bohw", image, weights["w0"][:, :, 0, 0]) + squares
    expected = np.einsum("bchw,oc->bohw", added, weights["w1"][:, :, 0, 0])
    for kept in (False, True):
        (program,) = open_twins([spec], SingleRank(Rank(0, 1, 0, 1, "here", 0)))
        wait_until_kept()
        assert program.kept == kept
        for _ in range(2):
            found = program.predict({"x": image})
            np.testing.assert_allclose(found["x2"], expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found["m"], squares, rtol=1e-6)
            found["m"][...] = 0  # the caller's own
        program.close()


def test_what_gains_nothing_is_left_alone(shard: str, executor: PrecisionExecutor) -> None:
    build = build_of(shard, executor)
    encrypted = build._replace(memory={"weights": memoryview(b"")})
    assert joined_build(encrypted, executor, PlayedRanks()) is encrypted
    alone = msgspec.structs.replace(build.plan, steps=tuple(build.plan.segments[:1]))
    assert joined_segment(alone) is None
