"""Repeated calls: which messages are kept."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import ModelDescription, TensorDescription
from rankmesh.orchestrator.server.grpc.infer_wire import decoded
from rankmesh.orchestrator.server.grpc.protocol.inference import ModelInferRequest
from rankmesh.orchestrator.server.grpc.repeated_calls import RepeatedCalls
from rankmesh.orchestrator.server.inference import InferenceRequest

pytestmark = pytest.mark.pure
X = TensorDescription.of(TensorSpec("x", "float32", (2,)))
MODEL = ModelDescription("echo", "1", ("1",), {"x": X}, {"x": X})


def test_a_message_with_much_around_its_tensors_is_not_kept() -> None:
    message = ModelInferRequest(model_name="echo", raw_input_contents=[bytes(8)])
    message.inputs.add(name="x", datatype="FP32", shape=[2])
    message.parameters["note"].string_param = "a" * 100_000
    body = message.SerializeToString()
    calls = RepeatedCalls()
    service = cast(Any, None)  # it would be asked to prepare a message that is to be kept
    assert not calls.note(service, decoded(body), InferenceRequest(MODEL, {}))
    assert calls.find(body) is None
