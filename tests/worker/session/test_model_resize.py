"""Model.resize: dynamic models, static ones built anew, and what cannot be resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import DATA, built, fails, file_of, saved
from onnx import save
from onnx_models import collective, node
from onnx_models import model as onnx_model
from primitives import same

from rankmesh import Context, Model, ModelError, ModelType, Tensor
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.session.engine import model_spec, open_model
from rankmesh.worker.session.meet import meet


def test_a_dynamic_model_shows_and_takes_new_shapes():
    model, ((array,), (reference,)) = built("dyn_mlp"), saved("dyn_mlp")
    early = model.get_inputs()[0]
    assert (early.shape, early.element_num, early.data_size) == ([-1, 16], 0, 0)
    output = model.get_outputs()[0]
    assert (output.shape[0], output.element_num, output.data_size) == (-1, 0, 0)
    fails(RuntimeError, "data size not equal!", early.set_data_from_numpy, array)
    model.resize(model.get_inputs(), [list(array.shape)])
    assert early.shape == list(array.shape)
    assert model.get_outputs()[0].shape == list(reference.shape)
    early.set_data_from_numpy(array)
    same(model.predict([early])[0].get_data_to_numpy(), reference)
    model.resize(model.get_inputs(), ((2, 16),))
    assert early.shape == list(array.shape)  # it holds data of its own by now
    assert (model.get_inputs()[0].shape, model.get_outputs()[0].shape) == ([2, 16], [2, 10])
    same(model.predict([array[:2]])[0].get_data_to_numpy(), reference[:2])


def test_a_dynamic_model_takes_arrays_without_a_resize():
    model, ((array,), (reference,)) = built("dyn_mlp"), saved("dyn_mlp")
    same(model.predict([array])[0].get_data_to_numpy(), reference)
    same(model.predict([array[:1]])[0].get_data_to_numpy(), reference[:1])
    fails(RuntimeError, "the shape [80], expected [-1, 16]", model.predict, [array.ravel()])


@pytest.mark.parametrize("name", ["dyn_conv", "dyn_attn"])
def test_shapes_of_outputs_follow_a_resize(name: str):
    inputs, references = saved(name)
    model = built(name)
    model.resize(model.get_inputs(), [list(array.shape) for array in inputs])
    for output, meta, reference in zip(
        model.predict(inputs), model.get_outputs(), references, strict=True
    ):
        same(output.get_data_to_numpy(), reference)
        assert all(dim in (-1, size) for dim, size in zip(meta.shape, reference.shape, strict=True))


def test_a_static_model_is_built_anew_for_new_shapes():
    model, ((array,), (reference,)) = built("resnet50"), saved("resnet50")
    model.resize(model.get_inputs(), [[2, 3, 64, 64]])
    assert (model.get_inputs()[0].shape, model.get_outputs()[0].shape) == ([2, 3, 64, 64], [2, 10])
    same(
        model.predict([np.concatenate([array, array])])[0].get_data_to_numpy(),
        np.concatenate([reference] * 2),
    )
    model.resize(model.get_inputs(), [[1, 3, 32, 48]])
    assert model.predict([np.ones((1, 3, 32, 48), np.float32)])[0].shape == [1, 10]
    model.resize(model.get_inputs(), [[1, 3, 64, 64]])
    same(model.predict([array])[0].get_data_to_numpy(), reference)


def test_a_resize_that_does_not_work_leaves_the_model_as_it_was():
    """BERT's export holds Reshapes to numbers of the old shape."""
    model, (inputs, references) = built("bert_encoder"), saved("bert_encoder")
    text = "(Reshape): the constant 'constant_2' = [2, 16, 64] fixes dimension 0 at 2"
    fails(RuntimeError, "resize failed! Error is ", model.resize, model.get_inputs(), [[3, 16]] * 3)
    for rows in (1, 3):
        fails(RuntimeError, text, model.resize, model.get_inputs(), [[rows, 16]] * 3)
    assert model.get_inputs()[0].shape == [2, 16]
    same(model.predict(inputs)[0].get_data_to_numpy(), references[0])


@pytest.mark.parametrize(
    ("inputs", "dims", "error", "text"),
    [
        (1, [[4, 16]], TypeError, "inputs must be list"),
        ([np.zeros(1)], [[4, 16]], TypeError, "inputs element must be Tensor"),
        (None, 1, TypeError, "dims must be list"),
        (None, [1], TypeError, "dims element must be list"),
        (None, [[4, 16.0]], TypeError, "dims element's element must be int"),
        (None, [], ValueError, "inputs' size does not match dims' size"),
        (None, [[4, 16, 1]], ValueError, "one of inputs' size does not match one of dims's size"),
        (None, [[4, 16, 1]], RuntimeError, "resize failed! Error is "),
        (None, [[-1, 16]], RuntimeError, "resize failed! Error is "),
        (None, [[2**31, 16]], RuntimeError, "resize failed! Error is "),
        (None, [[4, 17]], RuntimeError, "resize failed! Error is "),
        ([Tensor(), Tensor()], [[4, 16], [4, 16]], RuntimeError, "resize failed! Error is "),
    ],
)
@pytest.mark.parametrize("name", ["mlp", "dyn_mlp"])
def test_bad_resizes(name: str, inputs: Any, dims: Any, error: type[Exception], text: str):
    model = built(name)
    shape = model.get_inputs()[0].shape
    fails(error, text, model.resize, model.get_inputs() if inputs is None else inputs, dims)
    assert model.get_inputs()[0].shape == shape
    assert len(model.predict(saved(name)[0])) == 1


def test_an_open_size_may_be_0_and_a_fixed_one_may_not():
    model = built("dyn_mlp")
    model.resize(model.get_inputs(), [[0, 16]])
    assert (model.get_inputs()[0].shape, model.get_outputs()[0].shape) == ([0, 16], [0, 10])
    (given,) = model.get_inputs()
    given.set_data_from_numpy(np.zeros((0, 16), np.float32))
    assert model.predict([given])[0].get_data_to_numpy().shape == (0, 10)
    text = "[0, 16] of the input 'x' are not all from 1 to 2147483647, or 0 where the model"
    model = built("mlp")
    fails(RuntimeError, text, model.resize, model.get_inputs(), [[0, 16]])


@pytest.mark.parametrize("place", [{"x": ["t", 4]}, {"x": [4, 4]}])
def test_a_misfit_of_an_open_or_a_fixed_size_names_the_constant(place: Any, tmp_path: Path):
    nodes = [
        node("Reshape", "x target", "r"),
        node("MatMul", "r w", "y"),
    ]
    constants = {"target": np.array([4, -1]), "w": np.ones((4, 3), np.float32)}
    save(onnx_model(nodes, place, {"y": None}, constants=constants), str(tmp_path / "m.onnx"))
    model = Model()
    model.build_from_file(str(tmp_path / "m.onnx"), ModelType.MINDIR)
    with pytest.raises(ModelError) as caught:
        model.resize(model.get_inputs(), [[2, 4]])
    said = str(caught.value)
    assert "node 'Reshape r' (Reshape)" in said and "the constant 'target' = [4, -1]" in said
    assert "it cannot take 'x' [2, 4]" in said and "It takes 'x' [4, 4]" in said
    x = np.ones((4, 4), np.float32)
    same(model.predict([x])[0].get_data_to_numpy(), np.full((4, 3), 4, np.float32))


def test_inputs_may_be_a_tuple_and_a_bool_is_an_int():
    model = built("mlp")
    model.resize(tuple(model.get_inputs()), ((True, 16),))
    assert model.get_inputs()[0].shape == [1, 16]


def test_an_error_keeps_its_class_and_cause():
    with pytest.raises(ModelError) as caught:
        built("mlp").resize([Tensor()], [[4, 17]])
    assert str(caught.value).count("resize failed!") == 1


STATIC = sorted(
    path.name
    for path in DATA.iterdir()
    if path.is_dir()
    and (path / f"{path.name}.npz").exists()
    and not path.name.startswith(("dyn_", "gpt2_dyn", "enc_", "cf_", "dist_"))
    and not path.name.endswith("exportonly")
)
OF_FIXED_SHAPES = {"bert_functional", "gpt2", "llama_mint", "lstm", "tf_gemma", "zoo_nn"}


@pytest.mark.parametrize("name", STATIC)
def test_what_is_built_anew_computes_the_same(name: str):
    """Dropping every recorded shape changes no number; a model that needs those shapes says so."""
    inputs, references = saved(name)
    context = Context()
    context.cpu.thread_num = 1
    try:
        meeting = meet(context, Config())
        spec = model_spec(file_of(name), context, Config(), meeting)
        program = open_model(spec.resized(tuple(array.shape for array in inputs)), meeting)
    except ModelError as error:
        assert name in OF_FIXED_SHAPES, error
        return
    arrays = {
        signature.name: array for signature, array in zip(program.plan.inputs, inputs, strict=True)
    }
    for output, reference in zip(program.predict(arrays).values(), references, strict=True):
        same(output, reference)


def test_a_resize_keeps_what_requests_left(tmp_path: Path) -> None:
    """A static model, which is built anew for other shapes, and for its own again."""
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Add", "total s", "y"),
        collective("Assign", "y", "", state="total"),
    ]
    zero = {"total": np.array(0, np.float32)}
    save(onnx_model(nodes, {"x": [4]}, {"y": []}, constants=zero), str(tmp_path / "m.onnx"))
    counting = Model()
    counting.build_from_file(str(tmp_path / "m.onnx"), ModelType.MINDIR)
    for size, total in ((4, 4), (6, 10), (6, 16), (4, 20)):
        counting.resize(counting.get_inputs(), [[size]])
        assert counting.predict([np.ones(size, np.float32)])[0].get_data_to_numpy() == total
