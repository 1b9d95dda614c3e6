"""Converter: the checks and messages of MindSpore Lite's class, and what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import rankmesh as mslite
from rankmesh.launch.compat import compat_path

MODEL = """
<ir_version: 10, opset_import: ["": 18]>
halves (float[N, 4, 8, 8] sample, float[1] timestep, float[N, 3] states) => (float[N, 4, 8, 8] y) {
    half = Constant <value = float {0.5}> ()
    scaled = Mul (sample, half)
    moved = Add (scaled, timestep)
    axes = Constant <value_ints = [1]> ()
    mean = ReduceMean (states, axes)
    last = Constant <value_ints = [2, 3]> ()
    wide = Unsqueeze (mean, last)
    y = Add (moved, wide)
}
"""
"""A model with the inputs of document 004."""
SHAPES = "sample:1,4,8,8;timestep:1;states:1,3"
KEY = "00112233445566778899aabbccddeeff"


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return str(path)


def check(path: Path, **build: object) -> None:
    """Run a converted model of one image, and compare it with numpy."""
    model = mslite.Model()
    context = mslite.Context()
    context.target = ["cpu"]
    model.build_from_file(str(path), mslite.ModelType.MINDIR, context, **build)
    arrays = [np.ones((1, 4, 8, 8)), np.full(1, 50), np.arange(3).reshape(1, 3)]
    inputs = model.get_inputs()
    assert [one.shape for one in inputs] == [list(one.shape) for one in arrays]
    for given, array in zip(inputs, arrays, strict=True):
        given.set_data_from_numpy(array.astype(np.float32))
    (found,) = model.predict(inputs)
    np.testing.assert_allclose(found.get_data_to_numpy(), np.full((1, 4, 8, 8), 51.5), rtol=1e-6)


def test_convert(source: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    converter = mslite.Converter()
    converter.input_shape = {"sample": [1, 4, 8, 8], "timestep": [1], "states": [1, 3]}
    converter.weight_fp16 = True
    converter.optimize = "ascend_oriented:910b"
    converter.convert(mslite.FmkType.ONNX, source, str(tmp_path / "SD2.1_size512_bs1"))
    assert capfd.readouterr().out == "CONVERT RESULT SUCCESS:0\n"
    check(tmp_path / "SD2.1_size512_bs1.mindir")


def test_convert_again_from_mindir_encrypted(source: str, tmp_path: Path) -> None:
    converter = mslite.Converter()
    converter.convert(mslite.FmkType.ONNX, source, str(tmp_path / "open.mindir"))
    converter.input_shape = {"sample": [1, 4, 8, 8], "states": [1, 3]}
    converter.enable_encryption = True
    converter.encrypt_key, converter.encrypt_mode = KEY, "SM4-CBC"
    written = str(tmp_path / "open.mindir")
    converter.convert(mslite.FmkType.MINDIR, written, str(tmp_path / "secret"))
    check(tmp_path / "secret.mindir", dec_key=bytes.fromhex(KEY), dec_mode="SM4-CBC")


@pytest.mark.parametrize("by_script", [True, False])
def test_channels_last(source: str, tmp_path: Path, by_script: bool) -> None:
    output = tmp_path / "last.mindir"
    if by_script:
        converter = mslite.Converter()
        converter.input_format = mslite.Format.NHWC
        converter.convert(mslite.FmkType.ONNX, source, str(output))
    else:
        from rankmesh.launch.cli import app

        flags = [f"--modelFile={source}", f"--outputFile={output}", "--inputDataFormat=NHWC"]
        app(["convert", *flags, "--outputDataFormat=NHWC"], standalone_mode=False)
    model = mslite.Model()
    model.build_from_file(str(output), mslite.ModelType.MINDIR, mslite.Context())
    assert [one.shape for one in model.get_inputs()] == [[-1, 8, 8, 4], [1], [-1, 3]]
    model.resize(model.get_inputs(), [[1, 8, 8, 4], [1], [1, 3]])
    inputs = model.get_inputs()
    images = np.arange(256, dtype=np.float32).reshape(1, 8, 8, 4)
    for given, array in zip(inputs, (images, np.ones(1), np.zeros((1, 3))), strict=True):
        given.set_data_from_numpy(array.astype(np.float32))
    wanted = images / 2 + 1
    found = model.predict(inputs)[0].get_data_to_numpy()
    np.testing.assert_array_equal(found, wanted.transpose(0, 3, 1, 2) if by_script else wanted)


def test_program(source: str, tmp_path: Path) -> None:
    """Document 004's line, with the program in the compatibility folder."""
    command = [
        f"{compat_path()}/bin/converter_lite",
        f"--modelFile={source}",
        "--fmk=ONNX",
        "--outputFile=SD2.1_size512_bs1",
        f"--inputShape={SHAPES}",
        "--optimize=ascend_oriented",
        "--infer=true",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={
            "PYTHON": sys.executable,
            "PATH": "/usr/bin:/bin",
            "PYTHONPROFILEIMPORTTIME": "1",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "CONVERT RESULT SUCCESS:0"
    assert "onnx_ir._core" in done.stderr and "sympy.core" not in done.stderr
    check(tmp_path / "SD2.1_size512_bs1.mindir")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fmk=TFLITE"], "models of TFLITE are not read. Make an ONNX file with `python -m tf2"),
        (["--fmk=KERAS"], "'KERAS' is unknown: expected one of ONNX, MINDIR"),
        (["--saveType=ONNX"], "--saveType=ONNX: expected one of MINDIR, MINDIR_LITE"),
        (["--fp16=half"], "--fp16=half: expected one of on, true, off, false"),
        (["--optimize=fast"], "--optimize=fast: expected one of none, general"),
        (["--inputShape=sample"], "expected NAME:SIZE"),
        (["--inputShape=image:1"], "has no input 'image'; it has sample, timestep, states"),
        (["--configFile=absent.ini"], "--configFile=absent.ini: does not exist"),
        (["--encryption=true"], "a key of AES-GCM has 16, 24, 32 bytes"),
        (["--decryptMode=RC4"], "--decryptMode=RC4: expected one of AES-GCM"),
        (["--encryptMode=RC4"], "--encryptMode=RC4: expected one of AES-GCM"),
        (["--inputDataFormat=HW"], "--inputDataFormat=HW: expected one of NCHW, NHWC"),
        (["--outputDataType=BOOL"], "--outputDataType=BOOL: expected one of DEFAULT, FLOAT"),
        (["--trainModel=true"], "models are converted to run them: leave it out"),
    ],
)
def test_wrong_flags(
    source: str, tmp_path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from rankmesh.comm.errors import RankmeshError
    from rankmesh.launch.cli import app

    given = [f"--modelFile={source}", f"--outputFile={tmp_path}/out", *options]
    with pytest.raises(RankmeshError) as raised:
        app(["convert", *given], standalone_mode=False)
    assert words in str(raised.value)
    assert not list(tmp_path.glob("out*"))


def test_a_trial_run_needs_sizes(source: str, tmp_path: Path) -> None:
    converter = mslite.Converter()
    converter.infer = converter.enable_encryption = True
    converter.encrypt_key = KEY
    with pytest.raises(RuntimeError, match="the input 'sample' has the open shape"):
        converter.convert(mslite.FmkType.ONNX, source, str(tmp_path / "open"))
    converter.input_shape = {"sample": [1, 4, 8, 8], "states": [1, 3]}
    converter.convert(mslite.FmkType.ONNX, source, str(tmp_path / "fixed"))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.onnx", b"\x1c\0\0\0TFL3", "is a model of TensorFlow Lite, .* Make an ONNX file"),
        ("m.pt", b"PK\3\4more", "is a checkpoint of PyTorch, .* torch.onnx.export"),
        ("m.prototxt", b"layer {}", "is a model of Caffe, .* Make an ONNX file with"),
        ("saved/saved_model.pb", b"", "saved: is a SavedModel of TensorFlow, .* Make an ONNX"),
    ],
)
def test_files_of_other_frameworks(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path = path.parent if path.suffix == ".pb" else path
    with pytest.raises(RuntimeError, match=words):
        mslite.Converter().convert(mslite.FmkType.ONNX, str(path), str(tmp_path / "out"))


def test_shapes_of_a_configuration_file(source: str, tmp_path: Path) -> None:
    config = tmp_path / "convert.ini"
    config.write_text(f'[acl_build_options]\ninput_format="ND"\ninput_shape="{SHAPES}"\n')
    converter = mslite.Converter()
    output = str(tmp_path / "fixed")
    converter.convert(mslite.FmkType.ONNX, source, output, config_file=str(config))
    assert "'input_format': '\"ND\"'" in str(converter)
    check(tmp_path / "fixed.mindir")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("weight_fp16", "1", TypeError, "weight_fp16 must be bool"),
        ("input_shape", "{}", TypeError, "input_shape must be dict"),
        ("input_shape", {1: [1]}, TypeError, "input_shape key must be str"),
        ("input_shape", {"x": "[1]"}, TypeError, "input_shape value must be list"),
        ("input_shape", {"x": ["1"]}, TypeError, "input_shape value's element must be int"),
        ("input_format", 1, TypeError, "input_format must be Format"),
        ("input_format", mslite.Format.HW, ValueError, "input_format must be in"),
        ("input_data_type", 1, TypeError, "input_data_type must be DataType"),
        ("input_data_type", mslite.DataType.INVALID, ValueError, "input_data_type must be in"),
        ("output_data_type", mslite.DataType.INVALID, ValueError, "output_data_type must be in"),
        ("save_type", 1, TypeError, "save_type must be ModelType"),
        ("decrypt_key", 1, TypeError, "decrypt_key must be str"),
        ("decrypt_mode", 1, TypeError, "decrypt_mode must be str"),
        ("decrypt_mode", "1", ValueError, "decrypt_mode must be in"),
        ("enable_encryption", "", TypeError, "enable_encryption must be bool"),
        ("encrypt_key", 1, TypeError, "encrypt_key must be str"),
        ("infer", "1", TypeError, "infer must be bool"),
        ("optimize", 1, TypeError, "optimize must be str"),
        ("optimize", "fast", ValueError, "optimize must be 'none', 'general'"),
        ("optimize", "general:910b", ValueError, "optimize must be 'none', 'general'"),
        ("optimize", "ascend_oriented:1", ValueError, r"chip_name must be in \[default, 910b\]"),
        ("device", 1, TypeError, "device must be str"),
        ("device", "INVALID", ValueError, "device must be in"),
        ("device", "", ValueError, "device must be in"),
    ],
)
def test_attributes_check(name: str, value: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        setattr(mslite.Converter(), name, value)


@pytest.mark.pure
@pytest.mark.parametrize("name", ["decrypt_key", "encrypt_key"])
def test_keys_are_not_shown(name: str) -> None:
    converter = mslite.Converter()
    setattr(converter, name, KEY)
    with pytest.raises(TypeError, match=f"{name} is write-only"):
        getattr(converter, name)
    assert KEY not in str(converter)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("section", "entries", "words"),
    [
        (2, {"device": "3"}, "section must be str"),
        ("acl_param", ["device_id", 3], "config_info must be dict"),
        ("acl_param", {2: "3"}, "config_info key must be str"),
        ("acl_param", {"device_id": 3}, "config_info val must be str"),
    ],
)
def test_configuration_checks(section: object, entries: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        mslite.Converter().set_config_info(section, entries)  # type: ignore[arg-type]


@pytest.mark.pure
def test_text() -> None:
    converter = mslite.Converter()
    converter.set_config_info("acl_param", {"device_id": "3"})
    assert converter.get_config_info() == {"acl_param": {"device_id": "3"}}
    text = str(converter)
    assert text.startswith("config_info: {'acl_param': {'device_id': '3'}},\nweight_fp16: False,")
    assert text.endswith("infer: False,\noptimize: general,\ndevice: .")
    converter.set_config_info("", {"device_id": "4"})
    assert converter.get_config_info() == {"acl_param": {"device_id": "3"}}
    converter.optimize, converter.device = "ascend_oriented:910b", "Ascend"
    assert str(converter).endswith("optimize: ascend_oriented,\ndevice: Ascend.")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"fmk_type": ""}, TypeError, "fmk_type must be FmkType"),
        ({"model_file": 1}, TypeError, "model_file must be str"),
        ({"output_file": 1}, TypeError, "output_file must be str"),
        ({"weight_file": 1}, TypeError, "weight_file must be str"),
        ({"config_file": 1}, TypeError, "config_file must be str"),
        ({"model_file": "absent"}, RuntimeError, "model_file does not exist"),
        ({"model_file": ""}, RuntimeError, "model_file does not exist"),
        ({"weight_file": "absent"}, RuntimeError, "weight_file does not exist"),
        ({"config_file": "absent"}, RuntimeError, "config_file does not exist"),
        ({"model_file": "a", "config_file": "b"}, RuntimeError, "exist: a; config_file does not"),
        ({}, RuntimeError, "Converter model failed! error is models of CAFFE are not read"),
    ],
)
def test_files_are_checked(
    tmp_path: Path, changed: dict[str, object], kind: type[Exception], words: str
) -> None:
    present = tmp_path / "model"
    present.touch()
    given = {
        "fmk_type": mslite.FmkType.CAFFE,
        "model_file": str(present),
        "output_file": str(tmp_path / "out"),
        **changed,
    }
    with pytest.raises(kind, match=words):
        mslite.Converter().convert(**given)  # type: ignore[arg-type]
