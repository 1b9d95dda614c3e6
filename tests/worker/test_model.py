"""Model on real files: the order of its checks, its messages, and what it computes."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from primitives import same

from rankmesh import Context, DataType, Format, Model, ModelError, ModelType, RankmeshError, Tensor, TensorMeta

DATA = Path(__file__).parents[1] / "data" / "mindir"


def file_of(name: str) -> str:
    return str(DATA / name / f"{name}.mindir")


def saved(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    with np.load(DATA / name / f"{name}.npz") as arrays:
        return tuple([arrays[f"{kind}_{i}"] for i in range(len(arrays)) if f"{kind}_{i}" in arrays]
                     for kind in ("in", "out"))


def built(name: str, **arguments: Any) -> Model:
    context = Context()
    context.cpu.thread_num = 1
    model = Model()
    model.build_from_file(file_of(name), ModelType.MINDIR, context, **arguments)
    return model


def fails(error: type[Exception], text: str, function: Any, *arguments: Any, **keywords: Any) -> None:
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    assert text in str(caught.value)


def test_model_types():
    assert {t.name: t.value for t in ModelType} == {"MINDIR": 0, "MINDIR_LITE": 4}
    assert str(ModelType.MINDIR) == "ModelType.MINDIR"


def test_a_new_model_knows_its_process_and_nothing_else():
    model = Model()
    assert str(model) == "model_path: ."
    assert (model.get_inputs(), model.get_outputs()) == ([], [])
    assert model.get_model_info("current_pid") == str(os.getpid())
    for key in ("user_info", "input_shape", "dynamic_dims", "shareable_weight_mem_handle", "nonsense"):
        assert model.get_model_info(key) == ""


def test_the_checks_of_a_build_come_in_their_order(tmp_path: Path):
    """Everything is wrong at first; each step repairs what the last error named."""
    bad_ini, ini = tmp_path / "bad.ini", tmp_path / "good.ini"
    bad_ini.write_bytes(b"\xff\xfe")
    ini.write_text("[a]\nkey=1\n")
    broken = tmp_path / "broken.mindir"
    broken.write_bytes(b"\x0a\x05abc")
    arguments: dict[str, Any] = {
        "model_path": 1, "model_type": 0, "context": "cpu", "config_path": 1, "config_dict": [], "dec_key": "key",
        "dec_mode": 1, "dec_num_parallel": "1"}
    steps = [
        (TypeError, "model_path must be str, but got <class 'int'>.", {"model_path": "/no/such.mindir"}),
        (TypeError, "model_type must be ModelType", {"model_type": ModelType.MINDIR}),
        (TypeError, "context must be Context", {"context": None}),
        (TypeError, "config_path must be str", {"config_path": "/no/such.ini"}),
        (RuntimeError, "build_from_file failed, model_path does not exist!", {"model_path": str(broken)}),
        (RuntimeError, "build_from_file failed, config_path does not exist!", {"config_path": str(bad_ini)}),
        (RuntimeError, "load configuration failed! Error is ", {"config_path": str(ini)}),
        (TypeError, "config_dict must be dict", {"config_dict": {1: 1}}),
        (TypeError, "config_dict_key must be str", {"config_dict": {"a": 1}}),
        (TypeError, "config_dict_value must be dict", {"config_dict": {"a": {1: 1}}}),
        (TypeError, "config_dict_value_key must be str", {"config_dict": {"a": {"b": 1}}}),
        (TypeError, "config_dict_value_value must be str", {"config_dict": {str(i): {} for i in range(101)}}),
        (RuntimeError, "update configuration failed! Error is ", {"config_dict": {}}),
        (TypeError, "dec_key must be bytes", {"dec_key": b"key"}),
        (TypeError, "dec_mode must be str", {"dec_mode": ""}),
        (TypeError, "dec_num_parallel must be int", {"dec_num_parallel": 1}),
        (ValueError, "dec_mode must not be empty string!", {"dec_mode": "AES-GCM"}),
        (RuntimeError, "build_from_file failed! Error is ", {"model_path": file_of("mlp"), "dec_key": None}),
    ]
    model = Model()
    for error, text, repair in steps:
        fails(error, text, model.build_from_file, **arguments)
        arguments.update(repair)
    assert str(model) == f"model_path: {broken}."
    model.build_from_file(**arguments)
    assert str(model) == f"model_path: {file_of('mlp')}."


def test_a_second_build_fails_and_leaves_the_model_as_it_was():
    model = built("mlp")
    fails(RuntimeError, "build_from_file failed!", model.build_from_file, file_of("mlp"), ModelType.MINDIR)
    fails(RuntimeError, "Model has been called Build", model.build_from_file, file_of("mlp"), ModelType.MINDIR)
    same(model.predict(saved("mlp")[0])[0].get_data_to_numpy(), saved("mlp")[1][0])


def test_a_corrupt_model_is_a_model_error_and_may_be_followed_by_a_good_one(tmp_path: Path):
    corrupt = tmp_path / "corrupt.mindir"
    corrupt.write_bytes(Path(file_of("mlp")).read_bytes()[:1000])
    model = Model()
    fails(ModelError, f"build_from_file failed! Error is {corrupt}", model.build_from_file, str(corrupt),
          ModelType.MINDIR)
    assert model.get_inputs() == []
    model.build_from_file(file_of("mlp"), ModelType.MINDIR)


def test_an_encrypted_model_is_named():
    fails(ModelError, "is encrypted (AES-GCM)", Model().build_from_file, file_of("enc_gcm16"), ModelType.MINDIR,
          dec_key=b"0123456789ABCDEF")


@pytest.mark.parametrize("name", ["matmul_bias", "mlp", "mobilenetv2", "fp16_mlp", "multi_in_out", "scalar_inputs",
                                  "int_bool_io", "bert_encoder", "sd_unet", "passthrough", "split_mlp", "user_info"])
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
    inputs = {"tensors": [Tensor(array)], "arrays": [array], "tuple": (array,), "flat": [Tensor(array.ravel())],
              "without batch axis": [array[0]]}[kind]
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


@pytest.mark.parametrize(("inputs", "outputs", "error", "text"), [
    (np.zeros((4, 16), np.float32), None, TypeError, "inputs must be list or tuple, but got"),
    ([1], None, TypeError, "inputs element must be Tensor, but got <class 'int'> at index 0."),
    ([np.zeros((4, 16), np.float32)], (), TypeError, "outputs must be list"),
    ([np.zeros((4, 16), np.float32)], [1], TypeError, "outputs element must be Tensor"),
    ([], None, RuntimeError, "model input len:1 not equal input len:0!"),
    ([np.zeros((4, 16), np.float32)] * 2, None, RuntimeError, "model input len:1 not equal input len:2!"),
    ([np.zeros((4, 16), np.int32)], None, RuntimeError, "predict failed! Error is the input 'x' is int32"),
    ([np.zeros((4, 15), np.float32)], None, RuntimeError, "the shape [4, 15], expected [4, 16]"),
    ([Tensor(shape=[4, 16], dtype=DataType.FLOAT32)], None, RuntimeError, "the input 'x' never got any data"),
    ([np.zeros((4, 16), np.float32)], [Tensor(), Tensor()], RuntimeError, "1 outputs, got 2 tensors"),
])
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
    for output, meta, reference in zip(model.predict(inputs), model.get_outputs(), references, strict=True):
        same(output.get_data_to_numpy(), reference)
        assert all(dim in (-1, size) for dim, size in zip(meta.shape, reference.shape, strict=True))


def test_a_static_model_is_built_anew_for_new_shapes():
    model, ((array,), (reference,)) = built("resnet50"), saved("resnet50")
    model.resize(model.get_inputs(), [[2, 3, 64, 64]])
    assert (model.get_inputs()[0].shape, model.get_outputs()[0].shape) == ([2, 3, 64, 64], [2, 10])
    same(model.predict([np.concatenate([array, array])])[0].get_data_to_numpy(), np.concatenate([reference] * 2))
    model.resize(model.get_inputs(), [[1, 3, 32, 48]])
    assert model.predict([np.ones((1, 3, 32, 48), np.float32)])[0].shape == [1, 10]
    model.resize(model.get_inputs(), [[1, 3, 64, 64]])
    same(model.predict([array])[0].get_data_to_numpy(), reference)


def test_a_resize_that_does_not_work_leaves_the_model_as_it_was():
    """BERT's export holds Reshapes to numbers of the old shape."""
    model, (inputs, references) = built("bert_encoder"), saved("bert_encoder")
    fails(RuntimeError, "resize failed! Error is ", model.resize, model.get_inputs(), [[3, 16]] * 3)
    assert model.get_inputs()[0].shape == [2, 16]
    same(model.predict(inputs)[0].get_data_to_numpy(), references[0])


@pytest.mark.parametrize(("inputs", "dims", "error", "text"), [
    (1, [[4, 16]], TypeError, "inputs must be list"),
    ([np.zeros(1)], [[4, 16]], TypeError, "inputs element must be Tensor"),
    (None, 1, TypeError, "dims must be list"),
    (None, [1], TypeError, "dims element must be list"),
    (None, [[4, 16.0]], TypeError, "dims element's element must be int"),
    (None, [], ValueError, "inputs' size does not match dims' size"),
    (None, [[4, 16, 1]], ValueError, "one of inputs' size does not match one of dims's size"),
    (None, [[4, 16, 1]], RuntimeError, "resize failed! Error is "),
    (None, [[0, 16]], RuntimeError, "resize failed! Error is "),
    (None, [[-1, 16]], RuntimeError, "resize failed! Error is "),
    (None, [[2**31, 16]], RuntimeError, "resize failed! Error is "),
    (None, [[4, 17]], RuntimeError, "resize failed! Error is "),
    ([Tensor(), Tensor()], [[4, 16], [4, 16]], RuntimeError, "resize failed! Error is "),
])
@pytest.mark.parametrize("name", ["mlp", "dyn_mlp"])
def test_bad_resizes(name: str, inputs: Any, dims: Any, error: type[Exception], text: str):
    model = built(name)
    shape = model.get_inputs()[0].shape
    fails(error, text, model.resize, model.get_inputs() if inputs is None else inputs, dims)
    assert model.get_inputs()[0].shape == shape
    assert len(model.predict(saved(name)[0])) == 1


def test_model_info():
    model = built("user_info")
    assert model.get_model_info("user_info") == '{"author": "corpus", "version": "1"}'
    assert model.get_model_info("input_shape") == "x:[4, 16]"
    assert model.get_model_info("dynamic_dims") == ""
    assert model.get_model_info("shareable_weight_mem_handle") == ""
    configured = built("dyn_mlp", config_dict={"gpu_context": {"input_shape": "x:[-1,16]", "dynamic_dims": "[1~4]"}})
    assert configured.get_model_info("input_shape") == "x:[-1,16]"
    assert configured.get_model_info("dynamic_dims") == "[1~4]"
    assert configured.get_model_info("user_info") == ""


@pytest.mark.parametrize("arguments", [(), (1,), (None,)])
def test_the_key_of_model_info_is_checked(arguments: tuple):
    fails(TypeError, "key must be str", Model().get_model_info, *arguments)


def test_tensors_by_name():
    model = built("mlp")
    assert model.get_input_by_tensor_name("x").shape == [4, 16]
    name = model.get_outputs()[0].name
    assert model.get_output_by_tensor_name(name).shape == [4, 10]
    fails(TypeError, "tensor_name must be str", model.get_input_by_tensor_name, 1)
    fails(RuntimeError, "get_input_by_tensor_name failed!", model.get_input_by_tensor_name, "no")
    fails(RuntimeError, "get_output_by_tensor_name failed!", model.get_output_by_tensor_name, "no")


def test_content_counts_not_the_suffix(tmp_path: Path):
    (array,), (reference,) = saved("mlp")
    for suffix in ("ms", "onnx", "model"):
        path = shutil.copy(file_of("mlp"), tmp_path / f"mlp.{suffix}")
        model = Model()
        model.build_from_file(str(path), ModelType.MINDIR_LITE)
        same(model.predict([array])[0].get_data_to_numpy(), reference)


def onnx_model(path: Path) -> str:
    """y = x @ ones + 1, for any number of rows of four."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 4]), ("y", [2, 3])))
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.ones(12, np.float32))
    one = helper.make_tensor("b", TensorProto.FLOAT, [3], np.ones(3, np.float32))
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "g", [x], [y], [weight, one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_onnx_models_work_alike(tmp_path: Path):
    model = Model()
    model.build_from_file(onnx_model(tmp_path / "m.mindir"), ModelType.MINDIR, config_dict={})
    for rows in (2, 5):
        model.resize(model.get_inputs(), [[rows, 4]])
        assert model.get_outputs()[0].shape == [rows, 3]
        result = model.predict([np.ones((rows, 4), np.float32)])[0]
        np.testing.assert_array_equal(result.get_data_to_numpy(), np.full((rows, 3), 5, np.float32))
    fails(RuntimeError, "resize failed! Error is ", model.resize, model.get_inputs(), [[2, 5]])
    assert model.get_model_info("user_info") == ""


def test_an_error_keeps_its_class_and_cause():
    with pytest.raises(ModelError) as caught:
        built("mlp").resize([Tensor()], [[4, 17]])
    assert str(caught.value).count("resize failed!") == 1


def test_numbered_shards_need_their_ranks():
    path = str(Path(DATA.parents[2]) / "launch" / "sample" / "Matmul.mindir")
    fails(RankmeshError, "mpirun -n 2", Model().build_from_file, path, ModelType.MINDIR)


def test_a_bad_device_variable_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANKMESH_DEVICE", "tpu")
    context = Context()
    context.target = ["ascend"]
    fails(RuntimeError, "RANKMESH_DEVICE=tpu: expected one of cpu, gpu, ascend", Model().build_from_file,
          file_of("mlp"), ModelType.MINDIR, context)
