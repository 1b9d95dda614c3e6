"""Shapes of tensors between steps, whose models of a Triton repository reshape them."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from rankmesh import InputError, ModelError, UsageError
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.orders import ModelReport
from rankmesh.comm.serving.string_tensor import packed, packed_shape, strings_of, unpacked
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.chains.chain_plan import ChainPlan, ChainPlanner, ModelTensors
from rankmesh.orchestrator.chains.step_shapes import ended, given, taken, tensors_of, with_rows
from rankmesh.orchestrator.config.chain_settings import StepSettings
from rankmesh.orchestrator.config.published_model import (
    PublishedModel,
    RepositoryChain,
    TensorForm,
)
from rankmesh.orchestrator.scheduling.model_interface import ModelInterface

pytestmark = pytest.mark.pure
FLAT = TensorForm((-1, 1), (-1,))
SQUARE = TensorForm((2, 2), (4,))


def published(form: TensorForm, max_batch: int) -> PublishedModel:
    return PublishedModel("", {"x": form}, {"y": form}, max_batch, b"")


def interface(form: TensorForm, max_batch: int, dtype: str = "float32") -> ModelInterface:
    """A model with an input x and outputs y and z, of which clients see y."""
    specs = [TensorSpec(name, dtype, form.model_shape) for name in "xyz"]
    report = ModelReport("m", (specs[0],), tuple(specs[1:]), (0, 1))
    memory = cast(OwnedArena, None)
    return ModelInterface(report, memory, None, published(form, max_batch))


def test_a_step_takes_and_gives_the_shapes_of_clients() -> None:
    rows = interface(FLAT, 8)
    x = np.arange(3, dtype=np.float32)
    found = taken(rows, {"x": x.reshape(3, 1)})["x"]
    assert found.shape == (3,) and np.shares_memory(found, x)
    assert {name: one.shape for name, one in given(rows, {"y": x, "z": x}).items()} == {"y": (3, 1)}
    assert taken(interface(SQUARE, 0), {"x": np.ones((2, 2))})["x"].shape == (4,)


def test_strings_are_reshaped_with_their_heads() -> None:
    texts = strings_of([["ant"], ["bee"]])
    found = taken(interface(FLAT, 8, "bytes"), {"x": packed(texts)})["x"]
    assert unpacked(found).tolist() == [b"ant", b"bee"]
    back = given(interface(FLAT, 8, "bytes"), {"y": found})["y"]
    assert packed_shape(back) == (2, 1)


@pytest.mark.parametrize(
    ("shape", "wanted", "rowed", "found"),
    [
        ((4,), (-1, 4), True, (1, 4)),
        ((3, 4), (-1, 4), True, (3, 4)),
        ((1, 4), (4,), False, (4,)),
        ((3, 4), (4,), False, (3, 4)),
        ((3, 4), (-1, 4), False, (3, 4)),
    ],
)
def test_a_single_row_may_be_added_or_left_out(
    shape: tuple[int, ...], wanted: tuple[int, ...], rowed: bool, found: tuple[int, ...]
) -> None:
    assert with_rows(shape, wanted, rowed) == found
    spec = TensorSpec("y", "float32", wanted)
    assert ended(spec, np.ones(shape, np.float32), rowed).shape == found


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"'x' has the shape \[3, 2\], expected \[-1, 1\]"):
        taken(interface(FLAT, 8), {"x": np.ones((3, 2), np.float32)})
    with pytest.raises(ModelError, match=r"'y' has the shape \[5\], expected \[4\]"):
        given(interface(SQUARE, 0), {"y": np.ones(5, np.float32)})


def ensemble(max_batch: int, shape: tuple[int, ...], *models: ModelTensors) -> ChainPlan:
    """The plan of an ensemble of these models, one after the other; `shape` is that of its ends."""
    ends = tuple(TensorSpec(name, "float32", shape) for name in ("t0", f"t{len(models)}"))
    steps = tuple(
        StepSettings("m", {"x": f"t{at}"}, {"y": f"t{at + 1}"}) for at in range(len(models))
    )
    settings = RepositoryChain(
        name="e",
        steps=steps,
        inputs=(ends[0].name,),
        outputs=(ends[1].name,),
        published=published(TensorForm(shape, shape), max_batch),
        tensors=ends,
        number=1,
    )
    return ChainPlanner(settings, models).plan()


def test_an_ensemble_has_the_shapes_that_it_declares() -> None:
    rows = tensors_of(interface(FLAT, 8))
    assert rows.inputs == (TensorSpec("x", "float32", (-1, 1)),) and rows.max_batch == 8
    alone = tensors_of(interface(TensorForm((1,), (1,)), 0))
    plan = ensemble(4, (-1, 1), rows, alone, rows)
    assert plan.rowed and plan.inputs[0].shape == (-1, 1)
    plan = ensemble(0, (1,), rows, alone)
    assert not plan.rowed and plan.inputs[0].shape == plan.outputs[0].shape == (1,)


@pytest.mark.parametrize(
    ("max_batch", "shape", "text"),
    [
        (9, (-1, 1), "step 1 ('m'): its max_batch_size is 8, and that of the ensemble 9"),
        (
            4,
            (-1, 2),
            "its tensor 't1' is float32 of shape [-1, 1], and config.pbtxt of the ensemble",
        ),
    ],
)
def test_an_ensemble_that_does_not_fit_is_refused(
    max_batch: int, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ensemble(max_batch, shape, tensors_of(interface(FLAT, 8)))
    assert text in str(caught.value)
