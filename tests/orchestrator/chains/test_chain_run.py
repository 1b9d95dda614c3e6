"""Chain runs: a request ends, whatever the model of a step answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest

from rankmesh import ChainSettings, Draining, RankmeshError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.chains.chain_plan import ChainPlanner, ModelTensors
from rankmesh.orchestrator.chains.chain_run import ChainRun, StepClients
from rankmesh.orchestrator.requests.request import CallOutcome, Outputs, Request
from rankmesh.orchestrator.requests.request_inputs import HandedInputs

pytestmark = pytest.mark.pure
X = np.arange(4, dtype=np.float32)
X_SPEC, Y_SPEC = (TensorSpec(name, "float32", (4,)) for name in "xy")


class Models:
    """Models that answer each step at once, by `outputs`."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs

    def client(self, model: str | None, version: int | None = None) -> Models:
        return self

    def submit_step(
        self,
        given: Mapping[str, Any],
        whole: Request,
        kind_of_future: Callable[[int, Callable[[int], None]], CallOutcome],
        made: Callable[[Request], None],
    ) -> Request:
        request = Request(1, HandedInputs([*given.values()], []), kind_of_future(1, print), 0.0)
        made(request)
        request.future.set_result(self.outputs)
        return request


@pytest.mark.parametrize("outputs", [{"y": X}, {"z": X}, {}])
def test_a_step_whose_model_gives_other_outputs_ends_the_request(outputs: Outputs) -> None:
    plan = ChainPlanner(ChainSettings("c", ("echo",)), [ModelTensors((X_SPEC,), (Y_SPEC,))]).plan()
    whole = Request(7, HandedInputs([X], []), CallOutcome(7, print), 0.0)
    ended: list[Outputs | RankmeshError] = []
    models = cast(StepClients, Models(outputs))
    ChainRun(plan, models, whole, lambda request, outcome: ended.append(outcome)).start()
    (outcome,) = ended
    if "y" in outputs:
        assert outcome == outputs
    else:
        assert isinstance(outcome, Draining)
        assert "step 1 ('echo'): the model has another version by now" in str(outcome)
