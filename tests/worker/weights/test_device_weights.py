"""Weights in a GPU's memory: through a stand-in for CUDA's driver everywhere, and on a GPU where
there is one.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import stand_in_cuda
from changed_weights import other, weights, with_weights
from mindir_models import fails, file_of, saved
from weights_user import User, build, predict, update

from rankmesh import Model, UsageError
from rankmesh.comm.sharing.device_memory import DeviceArray
from rankmesh.comm.sharing.gpu import Gpu
from rankmesh.worker.api.model import weight_owner
from rankmesh.worker.executors import onnxruntime, prepared_segment
from rankmesh.worker.session import hardware as device

_TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}  # of another device's products


def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in stand_in_cuda.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(device, "gpu_count", lambda: 1)
    monkeypatch.setattr(device, "cuda_works", lambda: True)
    monkeypatch.setitem(onnxruntime.PROVIDERS, "gpu", [])
    monkeypatch.setattr(prepared_segment, "GPU_DEVICE", "cpu")


def _require_gpu() -> None:
    if not device.available("gpu"):
        pytest.skip("there is no NVIDIA GPU that onnxruntime can use here")
    try:
        Gpu(0)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.gpu)])
def gpu(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None] | None]:
    """A GPU, and what another process does before it can use it too."""
    if request.param == "real":
        _require_gpu()
        yield None
        return
    _stand_in(monkeypatch)
    yield stand_in_cuda.use_for_models
    gc.collect()
    assert stand_in_cuda.STATE.empty


@pytest.fixture
def user(gpu: Callable[[], None] | None) -> Iterator[User]:
    made = User(gpu)
    yield made
    made.close()


def _expected(path: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What the CPU computes with the weights of the file."""
    made: list[Model] = []
    build(made, path, None)
    return predict(made, inputs)


def _close(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, **_TOLERANCE)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "lstm", "bert_encoder", "split_mlp"])
def test_a_user_reads_the_owners_memory_and_follows_its_updates(
    user: User, tmp_path: Path, name: str
) -> None:
    """Weights that are bound where they lie, and those that sessions fold and read back; forth, by
    delta, and back.
    """
    inputs, _ = saved(name)
    made: list[Model] = []
    handle = build(made, file_of(name), {"pids": str(user.pid)}, "gpu")
    assert user("build", file_of(name), {"shared_mem_handle": handle}, "gpu") == ""
    owner = weight_owner(made[0])
    assert all(
        isinstance(owner.store.variables[key].copies[0], DeviceArray) for key in owner.store.index
    )
    exported = _expected(file_of(name), inputs)
    _close(predict(made, inputs), exported)
    _close(user("predict", inputs), exported)
    new = {
        key: array for key, array in other(weights(file_of(name))).items() if owner.names.known(key)
    }
    changed = _expected(with_weights(file_of(name), new, tmp_path), inputs)
    update(made, new)
    for result in (predict(made, inputs), user("predict", inputs)):
        _close(result, changed)
    owner.update({key: np.zeros_like(array) for key, array in new.items()}, delta=True)
    for result in (predict(made, inputs), user("predict", inputs)):
        _close(result, exported)
    made[0].rollback()
    assert user("info", "weights_version") == "1"
    for result in (predict(made, inputs), user("predict", inputs)):
        _close(result, changed)
    made.clear()


def test_many_inputs_of_one_array(gpu: Callable[[], None] | None) -> None:
    """Binding copies inputs to the GPU: each request's are bound anew, even where the array is the
    same.
    """
    inputs, _ = saved("mlp")
    made: list[Model] = []
    build(made, file_of("mlp"), None, "gpu")
    first = predict(made, inputs)
    inputs[0][...] *= 2
    _close(predict(made, inputs), _expected(file_of("mlp"), inputs))
    assert (predict(made, inputs)[0] != first[0]).any()


def test_cpu_and_gpu_do_not_share(user: User) -> None:
    made: list[Model] = []
    handle = build(made, file_of("mlp"), {"pids": str(user.pid)}, "gpu")
    assert "the owner's weights are on gpu " in user(
        "build", file_of("mlp"), {"shared_mem_handle": handle}, "cpu"
    )
    made.clear()


def test_without_cuda_python_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _stand_in(monkeypatch)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    fails(
        RuntimeError,
        "Install rankmesh[gpu] and NVIDIA's driver, or run on the CPU",
        build,
        [],
        file_of("mlp"),
        {"pids": "0"},
        "gpu",
    )
