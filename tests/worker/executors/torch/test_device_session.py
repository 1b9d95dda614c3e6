"""Sessions of onnxruntime between tensors of a device; here the device is a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from changed_weights import other, weights
from mindir_models import file_of, saved
from onnx_models import model, node
from weights_user import build, predict, update

from rankmesh import Model, RankFailed
from rankmesh.worker.executors import onnxruntime
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.executors.torch.device_session import DeviceSession, SharedStream
from rankmesh.worker.partition.plan import Segment

F32 = np.float32


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[DeviceSession]:
    """Every model of onnxruntime runs on the queue of a stream; the sessions that computed."""
    stream = SharedStream(torch.device("cpu"))
    monkeypatch.setattr(onnxruntime, "shared_stream", lambda device, number: stream)
    monkeypatch.delenv("RANKMESH_EXECUTOR", raising=False)
    found: list[DeviceSession] = []
    compute = DeviceSession.compute

    def noted(self: DeviceSession, inputs: Any) -> Any:
        found.append(self)
        return compute(self, inputs)

    monkeypatch.setattr(DeviceSession, "compute", noted)
    return found


@pytest.mark.parametrize("network", ["lstm", "fp16_mlp", "cf_while", "int_bool_io", "bf16_params"])
def test_a_network_computes_what_mindspore_computed(
    network: str, computed: list[DeviceSession]
) -> None:
    inputs, references = saved(network)
    made: list[Model] = []
    build(made, file_of(network), None)
    for _ in range(2):
        for got, reference in zip(predict(made, inputs), references, strict=True):
            assert (got.dtype, got.shape) == (reference.dtype, reference.shape)
            limit = {"float32": 1e-5, "bfloat16": 2e-2}.get(got.dtype.name, 2e-3)
            np.testing.assert_allclose(
                got.astype(np.float64), reference.astype(np.float64), limit, limit
            )
    assert computed


def test_updated_weights_are_computed_with(computed: list[DeviceSession]) -> None:
    inputs, _ = saved("mlp")
    made: list[Model] = []
    build(made, file_of("mlp"), {"ascend_context": {"shareable_weight_pid_list": "0"}})
    before = predict(made, inputs)[0]
    update(made, other(weights(file_of("mlp"))))
    assert (predict(made, inputs)[0] != before).any()
    made[0].rollback()
    np.testing.assert_array_equal(predict(made, inputs)[0], before)
    assert computed


def test_results_stay_where_onnxruntime_made_them(computed: list[DeviceSession]) -> None:
    made = model(
        [node("Add", "x x", "y"), node("NonZero", "y", "z")],
        {"x": (F32, [None, 2])},
        {"y": (F32, [None, 2]), "z": (np.int64, [2, None])},
    )
    prepared: Any = OnnxRuntime().prepare(Segment(made, ("x",), ("y", "z")), "/")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3).T  # not contiguous
    y, z = prepared.compute([x])
    empty, _ = prepared.compute([x[:0]])
    assert y.tolist() == (2 * x).tolist() and empty.shape == (0, 2)
    assert z.tolist() == torch.nonzero(x).T.tolist()
    with pytest.raises(RankFailed, match="the segment that ends in y"):
        prepared.compute([x[:, :1].expand(3, 3)])
