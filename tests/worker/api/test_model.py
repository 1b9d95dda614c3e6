"""Model on real files: building, the order of its checks, its messages, what it tells of itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from encrypted import KEY
from mindir_models import DATA, built, fails, file_of, saved
from onnx import TensorProto, helper
from primitives import same

from rankmesh import Context, Model, ModelError, ModelType, RankmeshError, UsageError


def test_model_types():
    assert {t.name: t.value for t in ModelType} == {"MINDIR": 0, "MINDIR_LITE": 4}
    assert str(ModelType.MINDIR) == "ModelType.MINDIR"


def test_a_new_model_knows_its_process_and_nothing_else():
    model = Model()
    assert str(model) == "model_path: ."
    assert (model.get_inputs(), model.get_outputs()) == ([], [])
    assert model.get_model_info("current_pid") == str(os.getpid())
    for key in (
        "user_info",
        "input_shape",
        "dynamic_dims",
        "shareable_weight_mem_handle",
        "nonsense",
    ):
        assert model.get_model_info(key) == ""


def test_the_checks_of_a_build_come_in_their_order(tmp_path: Path):
    """Everything is wrong at first; each step repairs what the last error named."""
    bad_ini, ini = tmp_path / "bad.ini", tmp_path / "good.ini"
    bad_ini.write_bytes(b"\xff\xfe")
    ini.write_text("[a]\nkey=1\n")
    names_ini = tmp_path / "names.ini"
    names_ini.write_text('[ascend_context]\nvariable_weights_file="no_such_names.txt"\n')
    broken = tmp_path / "broken.mindir"
    broken.write_bytes(b"\x0a\x05abc")
    arguments: dict[str, Any] = {
        "model_path": 1,
        "model_type": 0,
        "context": "cpu",
        "config_path": 1,
        "config_dict": [],
        "dec_key": "key",
        "dec_mode": 1,
        "dec_num_parallel": "1",
    }
    steps = [
        (
            TypeError,
            "model_path must be str, but got <class 'int'>.",
            {"model_path": "/no/such.mindir"},
        ),
        (TypeError, "model_type must be ModelType", {"model_type": ModelType.MINDIR}),
        (TypeError, "context must be Context", {"context": None}),
        (TypeError, "config_path must be str", {"config_path": "/no/such.ini"}),
        (
            RuntimeError,
            "build_from_file failed, model_path does not exist!",
            {"model_path": str(broken)},
        ),
        (
            RuntimeError,
            "build_from_file failed, config_path does not exist!",
            {"config_path": str(bad_ini)},
        ),
        (RuntimeError, "load configuration failed! Error is ", {"config_path": str(names_ini)}),
        (RuntimeError, "variable weight name list is not exists.", {"config_path": str(ini)}),
        (TypeError, "config_dict must be dict", {"config_dict": {1: 1}}),
        (TypeError, "config_dict_key must be str", {"config_dict": {"a": 1}}),
        (TypeError, "config_dict_value must be dict", {"config_dict": {"a": {1: 1}}}),
        (TypeError, "config_dict_value_key must be str", {"config_dict": {"a": {"b": 1}}}),
        (
            TypeError,
            "config_dict_value_value must be str",
            {"config_dict": {str(i): {} for i in range(101)}},
        ),
        (RuntimeError, "update configuration failed! Error is ", {"config_dict": {}}),
        (TypeError, "dec_key must be bytes", {"dec_key": b"key"}),
        (TypeError, "dec_mode must be str", {"dec_mode": ""}),
        (TypeError, "dec_num_parallel must be int", {"dec_num_parallel": 1}),
        (ValueError, "dec_mode must not be empty string!", {"dec_mode": "AES-GCM"}),
        (
            RuntimeError,
            "build_from_file failed! Error is ",
            {"model_path": file_of("mlp"), "dec_key": None},
        ),
    ]
    model = Model()
    for error, text, repair in steps:
        fails(error, text, model.build_from_file, **arguments)
        arguments.update(repair)
    assert str(model) == f"model_path: {broken}."
    model.build_from_file(**arguments)
    assert str(model) == f"model_path: {file_of('mlp')}."
    assert repr(model) == f"Model({str(file_of('mlp'))!r})" and repr(Model()) == "Model()"


def test_a_second_build_fails_and_leaves_the_model_as_it_was():
    model = built("mlp")
    fails(
        RuntimeError,
        "build_from_file failed!",
        model.build_from_file,
        file_of("mlp"),
        ModelType.MINDIR,
    )
    fails(
        RuntimeError,
        "Model has been called Build",
        model.build_from_file,
        file_of("mlp"),
        ModelType.MINDIR,
    )
    same(model.predict(saved("mlp")[0])[0].get_data_to_numpy(), saved("mlp")[1][0])


def test_a_corrupt_model_is_a_model_error_and_may_be_followed_by_a_good_one(tmp_path: Path):
    corrupt = tmp_path / "corrupt.mindir"
    corrupt.write_bytes(Path(file_of("mlp")).read_bytes()[:1000])
    model = Model()
    fails(
        ModelError,
        f"build_from_file failed! Error is {corrupt}",
        model.build_from_file,
        str(corrupt),
        ModelType.MINDIR,
    )
    assert model.get_inputs() == []
    model.build_from_file(file_of("mlp"), ModelType.MINDIR)


def test_an_encrypted_model(monkeypatch: pytest.MonkeyPatch):
    """The key may be in the environment; a resize that builds anew decrypts anew."""
    (x,), (reference,) = saved("enc_cbc16")
    given = built("enc_cbc16", dec_key=KEY, dec_mode="AES-CBC", dec_num_parallel=2)
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    for model in (given, built("enc_cbc16", dec_mode="AES-CBC")):
        assert model.get_model_info("user_info") == ""
        model.resize(model.get_inputs(), [[2, 16]])
        same(model.predict([x[:2]])[0].get_data_to_numpy(), reference[:2])


def test_an_encrypted_model_without_the_right_key():
    build, path = Model().build_from_file, file_of("enc_gcm16")
    fails(ModelError, "build_from_file failed! Error is ", build, path, ModelType.MINDIR)
    fails(ModelError, "wrong key", build, path, ModelType.MINDIR, dec_key=b"another key 0123")
    fails(UsageError, "the key has 3 bytes", build, path, ModelType.MINDIR, dec_key=b"key")
    fails(
        UsageError,
        "expected AES-GCM, AES-CBC, SM4-CBC",
        build,
        path,
        ModelType.MINDIR,
        dec_key=KEY,
        dec_mode="AES",
    )
    fails(
        UsageError,
        "dec_num_parallel is 65",
        build,
        path,
        ModelType.MINDIR,
        dec_key=KEY,
        dec_num_parallel=65,
    )


def test_model_info():
    model = built("user_info")
    assert model.get_model_info("user_info") == '{"author": "corpus", "version": "1"}'
    assert model.get_model_info("input_shape") == "x:[4, 16]"
    assert model.get_model_info("dynamic_dims") == ""
    assert model.get_model_info("shareable_weight_mem_handle") == ""
    configured = built(
        "dyn_mlp",
        config_dict={"gpu_context": {"input_shape": "x:[-1,16]", "dynamic_dims": "[1~4]"}},
    )
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
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [2, 4]), ("y", [2, 3]))
    )
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.ones(12, np.float32))
    one = helper.make_tensor("b", TensorProto.FLOAT, [3], np.ones(3, np.float32))
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "g", [x], [y], [weight, one]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
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


def test_numbered_shards_need_their_ranks():
    path = str(Path(DATA.parents[2]) / "launch" / "sample" / "Matmul.mindir")
    fails(RankmeshError, "mpirun -n 2", Model().build_from_file, path, ModelType.MINDIR)


def test_a_bad_device_variable_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANKMESH_DEVICE", "tpu")
    context = Context()
    context.target = ["ascend"]
    fails(
        RuntimeError,
        "RANKMESH_DEVICE=tpu: expected one of cpu, gpu, ascend",
        Model().build_from_file,
        file_of("mlp"),
        ModelType.MINDIR,
        context,
    )
