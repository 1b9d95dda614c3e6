"""Joined builds: they compute the same as builds whose segments are optimized one by one."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx_models import collective, model, node

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.rendezvous import SingleRank
from rankmesh.worker.cache.build_cache import Build, read_build
from rankmesh.worker.cache.kept_build import write_entry
from rankmesh.worker.cache.settings import CacheLocation
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.precise import Precision, PrecisionExecutor
from rankmesh.worker.image_layout.joined_segment import joined_segment
from rankmesh.worker.partition.plan import CollectiveStep, Segment
from rankmesh.worker.runtime.joined_build import joined_build
from rankmesh.worker.runtime.opening import open_twins
from rankmesh.worker.runtime.program_spec import ProgramSpec

_CHANNELS = 32
_RANK = Rank(0, 2, 0, 2, "here", 0)
Arrays = dict[str, np.ndarray]


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
    """The values of all operands and outputs; each rank gives the same edges."""
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
            values[step.outputs[0]] = np.concatenate([values[step.inputs[0]]] * 2)
    return {**found, "x2": values["x2"]}


def assert_alike(build: Build, other: Build) -> None:
    found, expected = outputs(build), outputs(other)
    assert found.keys() == expected.keys() == {"edge1", "edge2", "x2"}
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5 * np.abs(array).max(), rtol=0)


def test_images_stay_in_the_layout(shard: str, executor: PrecisionExecutor) -> None:
    build = build_of(shard, executor)
    joined = joined_build(build, executor)
    assert joined.run is not None and len(joined.run.collectives) == 2
    assert_alike(joined, build)
    reordered = [
        value.name
        for segment in joined.run.segments
        for value in (*segment.model.graph.input, *segment.model.graph.output)
        if value.name.startswith(("b", "x1", "window"))
    ]
    assert not reordered  # of what passes from one segment to the next, only edges are in ONNX's


def test_a_kept_build_is_joined_from_its_file(
    shard: str, executor: PrecisionExecutor, tmp_path: Path
) -> None:
    build = build_of(shard, executor)
    write_entry(tmp_path, build.plan, executor)
    place = tmp_path / "joined.onnx"
    assert sorted(one.name for one in tmp_path.glob("*.onnx")) == [place.name]
    kept = joined_build(build._replace(joined=str(place)), executor)
    assert kept.run is not None
    assert_alike(kept, build)
    place.write_bytes(b"damaged")
    assert joined_build(build._replace(joined=str(place)), executor).run is None


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
        for thread in threading.enumerate():
            if thread.name == "rankmesh-model-cache":
                thread.join(60)
    for program in opened:
        program.close()


def test_what_gains_nothing_is_left_alone(shard: str, executor: PrecisionExecutor) -> None:
    build = build_of(shard, executor)
    encrypted = build._replace(memory={"weights": memoryview(b"")})
    assert joined_build(encrypted, executor) is encrypted
    alone = msgspec.structs.replace(build.plan, steps=tuple(build.plan.segments[:1]))
    assert joined_segment(alone) is None
