"""Model.predict: every form of inputs and outputs, and what it computes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from mindir_models import built, fails, saved
from primitives import same

from rankmesh import DataType, Format, Model, Tensor, TensorMeta


@pytest.mark.parametrize(
    "name",
    [
        "matmul_bias",
        "mlp",
        "mobilenetv2",
        "fp16_mlp",
        "multi_in_out",
        "scalar_inputs",
        "int_bool_io",
        "bert_encoder",
        "sd_unet",
        "passthrough",
        "split_mlp",
        "user_info",
    ],
)
def test_a_model_computes_what_mindspore_computed(name: str):
    inputs, references = saved(name)
    model = built(name)
    tensors = model.get_inputs()
    for tensor, array in zip(tensors, inputs, strict=True):
        assert (tensor.shape, tensor.get_data_to_numpy().dtype) == (list(array.shape), array.dtype)
        tensor.set_data_from_numpy(array)
    declared = model.get_outputs()
    for _ in range(2):  # built once, run many times
        outputs = model.predict(tensors)
        for output, meta, reference in zip(outputs, declared, references, strict=True):
            same(output.get_data_to_numpy(), reference)
            assert (output.name, output.shape, output.dtype) == (meta.name, meta.shape, meta.dtype)
            assert (output.data_size, output.element_num) == (reference.nbytes, reference.size)
            assert (meta.data_size, meta.element_num) == (reference.nbytes, reference.size)


@pytest.mark.parametrize("kind", ["tensors", "arrays", "tuple", "flat", "without batch axis"])
def test_inputs_may_be_given_in_many_forms(kind: str):
    (array,), (reference,) = saved("mobilenetv2")
    inputs = {
        "tensors": [Tensor(array)],
        "arrays": [array],
        "tuple": (array,),
        "flat": [Tensor(array.ravel())],
        "without batch axis": [array[0]],
    }[kind]
    same(built("mobilenetv2").predict(inputs)[0].get_data_to_numpy(), reference)


def test_results_belong_to_the_caller():
    model, (array,) = built("mlp"), saved("mlp")[0]
    first = model.predict([array])[0].get_data_to_numpy()
    before = first.copy()
    model.predict([array * 2])
    np.testing.assert_array_equal(first, before)


def test_inputs_are_fresh_tensors_at_each_call():
    model, (array,) = built("mlp"), saved("mlp")[0]
    tensor = model.get_inputs()[0]
    tensor.set_data_from_numpy(array)
    fails(RuntimeError, "predict failed", model.predict, model.get_inputs())
    assert len(model.predict([tensor])) == 1


def test_an_input_may_be_filled_through_its_view():
    model, ((array,), (reference,)) = built("mlp"), saved("mlp")
    tensor = model.get_inputs()[0]
    tensor.get_data_to_numpy()[:] = array
    same(model.predict([tensor])[0].get_data_to_numpy(), reference)


def test_outputs_are_descriptions_and_tensors():
    output = built("mlp").get_outputs()[0]
    assert isinstance(output, Tensor) and isinstance(output, TensorMeta)
    assert (output.shape, output.dtype, output.format) == ([4, 10], DataType.FLOAT32, Format.NCHW)
    assert (output.element_num, output.data_size) == (40, 160)


def test_given_outputs_are_filled():
    model, ((array,), (reference,)) = built("mlp"), saved("mlp")
    buffer = np.zeros((10, 4), np.float32)
    small = Tensor(np.zeros(3, np.int32))
    for outputs in ([Tensor(buffer)], [small], model.get_outputs(), [Tensor()]):
        tensor = outputs[0]
        assert model.predict([array], outputs) is outputs
        assert (outputs[0], tensor.shape, tensor.dtype) == (tensor, [4, 10], DataType.FLOAT32)
        same(tensor.get_data_to_numpy(), reference)
    np.testing.assert_array_equal(buffer.ravel(), small.get_data_to_numpy().ravel())


def test_an_empty_list_of_outputs_is_filled_in_place():
    model, ((array,), (reference,)) = built("mlp"), saved("mlp")
    outputs: list[Tensor] = []
    assert model.predict([Tensor(array)], outputs) is outputs
    same(outputs[0].get_data_to_numpy(), reference)
    assert outputs[0].get_tensor_name() == outputs[0].name != ""


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "text"),
    [
        (np.zeros((4, 16), np.float32), None, TypeError, "inputs must be list or tuple, but got"),
        ([1], None, TypeError, "inputs element must be Tensor, but got <class 'int'> at index 0."),
        ([np.zeros((4, 16), np.float32)], (), TypeError, "outputs must be list"),
        ([np.zeros((4, 16), np.float32)], [1], TypeError, "outputs element must be Tensor"),
        ([], None, RuntimeError, "model input len:1 not equal input len:0!"),
        (
            [np.zeros((4, 16), np.float32)] * 2,
            None,
            RuntimeError,
            "model input len:1 not equal input len:2!",
        ),
        (
            [np.zeros((4, 16), np.int32)],
            None,
            RuntimeError,
            "predict failed! Error is the input 'x' is int32",
        ),
        (
            [np.zeros((4, 15), np.float32)],
            None,
            RuntimeError,
            "the shape [4, 15], expected [4, 16]",
        ),
        (
            [Tensor(shape=[4, 16], dtype=DataType.FLOAT32)],
            None,
            RuntimeError,
            "the input 'x' never got any data",
        ),
        (
            [np.zeros((4, 16), np.float32)],
            [Tensor(), Tensor()],
            RuntimeError,
            "1 output, got 2 tensors",
        ),
    ],
)
def test_bad_predictions(inputs: Any, outputs: Any, error: type[Exception], text: str):
    model = built("mlp")
    fails(error, text, model.predict, inputs, outputs)
    assert len(model.predict(saved("mlp")[0])) == 1


def test_predicting_before_building():
    fails(RuntimeError, "call build_from_file first", Model().predict, [Tensor()])
    fails(RuntimeError, "predict failed!", Model().predict, [])
    fails(RuntimeError, "resize failed! Error is ", Model().resize, [], [])


def test_threads_take_turns():
    model, ((array,), (reference,)) = built("mobilenetv2"), saved("mobilenetv2")
    results: list[np.ndarray] = []

    def work(factor: int) -> None:
        for _ in range(3):
            results.append(model.predict([array])[0].get_data_to_numpy())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    for result in results:
        same(result, reference)


def test_an_input_that_was_filled_for_another_shape_has_no_data():
    model = built("dyn_mlp")
    fails(RuntimeError, "never got any data", model.predict, model.get_inputs())
    tensor = model.get_inputs()[0]
    model.resize([tensor], [[2, 16]])
    tensor.get_data_to_numpy()[:] = 1
    assert model.predict([tensor])[0].shape == [2, 10]
    model.resize([tensor], [[3, 16]])
    fails(RuntimeError, "never got any data", model.predict, [tensor])
