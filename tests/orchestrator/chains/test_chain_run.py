"""Chain runs: a request ends, whatever the model of a step answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from rankmesh import ChainSettings, Draining, RankmeshError
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.orders import ModelReport
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.chains.chain_plan import ChainPlanner, ModelTensors
from rankmesh.orchestrator.chains.chain_run import ChainRun, StepClients
from rankmesh.orchestrator.requests.request import Outputs, Request
from rankmesh.orchestrator.requests.request_inputs import HandedInputs
from rankmesh.orchestrator.scheduling.model_interface import ModelInterface

pytestmark = pytest.mark.pure
X = np.arange(4, dtype=np.float32)
X_SPEC, Y_SPEC = (TensorSpec(name, "float32", (4,)) for name in "xy")
NO_MEMORY = cast(OwnedArena, None)


class Model:
    """A model that answers each step before it is known to be queued."""

    interface = ModelInterface(ModelReport("echo", (X_SPEC,), (Y_SPEC,), (0,)), NO_MEMORY, None)

    def __init__(self, answer: Outputs | Draining) -> None:
        self.answer = answer

    def submit_step(
        self,
        given: Mapping[str, Any],
        whole: Request,
        request: Request,
    ) -> None:
        if isinstance(self.answer, Draining):
            request.set_exception(self.answer)
        else:
            request.set_result(self.answer)


class Versions:
    """Versions of a model; each is asked for once, but for the last."""

    def __init__(self, *models: Model) -> None:
        self.models = list(models)

    def client(self, model: str | None, version: int | None = None) -> Model:
        return self.models.pop(0) if len(self.models) > 1 else self.models[0]


def outcome_of(*versions: Model) -> Outputs | RankmeshError:
    """What a request to a chain of one step ends with."""
    plan = ChainPlanner(ChainSettings("c", ("echo",)), [ModelTensors((X_SPEC,), (Y_SPEC,))]).plan()
    whole = Request()
    whole.inputs = HandedInputs([X], [])
    ended: list[Outputs | RankmeshError] = []
    models = cast(StepClients, Versions(*versions))
    ChainRun(plan, models, whole, lambda request, outcome: ended.append(outcome)).start()
    (outcome,) = ended
    return outcome


@pytest.mark.parametrize("outputs", [{"z": X}, {}])
def test_a_step_whose_model_gives_other_outputs_ends_the_request(outputs: Outputs) -> None:
    outcome = outcome_of(Model(outputs))
    assert isinstance(outcome, Draining)
    assert "step 1 ('echo'): the model has another version by now" in str(outcome)


def test_a_step_whose_version_ends_just_then_runs_on_the_next_one() -> None:
    assert outcome_of(Model(Draining("it ends")), Model({"y": X})) == {"y": X}
    assert isinstance(outcome_of(Model(Draining("all end"))), Draining)
