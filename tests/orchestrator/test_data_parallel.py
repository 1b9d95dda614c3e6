"""A batch over several replicas: what goes where, and how it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindir_models import fails
from served_models import SAMPLE, denoiser, doubler

import rankmesh
from rankmesh import DataParallel
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.data_parallel import joined, parts_of


def spec(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


@given(total=st.integers(1, 40), replicas=st.integers(1, 6))
def test_open_rows_are_divided_evenly_and_joined_in_order(total: int, replicas: int):
    x = np.arange(2.0 * total).reshape(total, 2)
    parts = parts_of([spec("x", -1, 2), spec("b", 3)], {"x": x, "b": np.ones(3)}, replicas)
    sizes = [len(part.inputs["x"]) for part in parts]
    assert len(parts) == min(total, replicas) and max(sizes) - min(sizes) <= 1
    assert all(np.array_equal(part.inputs["b"], np.ones(3)) for part in parts)
    np.testing.assert_array_equal(
        joined(parts, [{"y": part.inputs["x"] + 1} for part in parts])["y"], x + 1
    )


@given(total=st.integers(1, 40), size=st.integers(1, 7))
def test_fixed_rows_are_padded_and_the_padding_is_cut_off(total: int, size: int):
    x = np.arange(2.0 * total).reshape(total, 2)
    parts = parts_of([spec("x", size, 2)], {"x": x}, 2)
    assert [len(part.inputs["x"]) for part in parts] == [size] * -(-total // size)
    np.testing.assert_array_equal(
        joined(parts, [{"y": part.inputs["x"] * 2} for part in parts])["y"], x * 2
    )


def test_outputs_without_rows():
    parts = parts_of([spec("x", 1, 2)], {"x": np.zeros((3, 2))}, 2)
    results = [{"same": np.float32(7), "own": np.full(2, i)} for i in range(3)]
    together = joined(parts, results)
    assert together["same"] == 7 and np.array_equal(together["own"], [[0, 0], [1, 1], [2, 2]])


def test_batches_that_do_not_fit():
    specs = [spec("x", -1, 2), spec("y", -1)]
    fails(
        rankmesh.InputError,
        "different numbers of rows, {'x': 3, 'y': 2}",
        parts_of,
        specs,
        {"x": np.zeros((3, 2)), "y": np.zeros(2)},
        2,
    )
    fails(
        rankmesh.InputError,
        "different fixed first dimensions [1, 2]",
        parts_of,
        [spec("x", 1), spec("y", 2)],
        {"x": np.zeros(4), "y": np.zeros(4)},
        2,
    )


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataParallel]:
    with DataParallel(denoiser(tmp_path_factory.mktemp("noise")), devices=[0, 1]) as parallel:
        yield parallel


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "timestep",
    [50.0, np.float32(50), np.full(1, 50, np.float32)],
    ids=["Python's", "scalar", "one value"],
)
def test_the_program_of_document_004_in_one_line(
    noise: DataParallel, count: int, timestep: float | np.ndarray
):
    random = np.random.default_rng(count)
    sample = random.normal(size=(count, 4, 8, 8)).astype(np.float32)
    hidden = random.normal(size=(count, 7, 16)).astype(np.float32)
    found = noise.predict(
        {"sample": sample, "timestep": timestep, "encoder_hidden_states": hidden}
    )["noise"]
    expected = sample + np.float32(50) + hidden.mean(axis=(1, 2)).reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    again = noise.predict(sample, timestep, hidden)["noise"]
    np.testing.assert_array_equal(found, again)
    assert [one.device for one in noise.orchestrator.status().ranks] == [0, 1]


def test_what_does_not_fit_is_named(noise: DataParallel):
    fails(rankmesh.InputError, "got 1 input, expected 3", noise.predict, np.zeros(3))
    fails(
        rankmesh.InputError,
        "got the inputs ['sample'], expected ['sample', 'timestep'",
        noise.predict,
        {"sample": np.zeros(3)},
    )


def test_replicas_share_an_uneven_batch_of_open_rows(tmp_path: Path):
    with DataParallel(doubler(tmp_path), 2) as parallel:
        x = np.arange(28, dtype=np.float32).reshape(7, 4)
        np.testing.assert_array_equal(parallel.predict(x, np.ones(1, np.float32))["y"], 2 * x + 1)


def test_groups_of_ranks_share_a_batch_too():
    with (
        DataParallel(SAMPLE, devices=[0, 1, 2, 3]) as parallel,
        np.load(Path(SAMPLE).with_suffix(".npz")) as arrays,
    ):
        found = parallel.predict(np.concatenate([arrays["in_0"], -arrays["in_0"]]))["output_0"]
        assert [(one.replica, one.device) for one in parallel.orchestrator.status().ranks] == [
            (0, 0),
            (0, 1),
            (1, 2),
            (1, 3),
        ]
        np.testing.assert_allclose(found[:4], arrays["out_0"], rtol=1e-5, atol=1e-5)
        assert found.shape == (8, 16)
