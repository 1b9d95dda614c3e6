"""Files of other kinds, and names that are no paths: one sentence with the remedy, by all ways."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from processes import rankmesh as command

import rankmesh
from rankmesh.comm.errors import ModelError, RankmeshError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.slicing.slicer import plan_slices
from rankmesh.launch.inspection.inspect import inspect_model

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
PICKLE = b"\x80\x02}q\x00X\x01\x00\x00\x00wq\x01K\x01s."


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return made.getvalue()


def tarred() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return made.getvalue()


def message(number: int, content: bytes) -> bytes:
    """A field of protobuf."""
    return bytes([number << 3 | 2, len(content)]) + content


def arrays(**given: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.savez(made, **given)
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.zeros(3))
    return made.getvalue()


SAFETENSORS = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
NODE = message(1, message(1, b"x") + message(2, b"Placeholder"))
SAVED_MODEL = b"\x08\x01" + message(2, message(1, message(4, b"serve")))
TORCH = zipped("archive/data.pkl", "archive/data/0", "archive/version")

FILES: dict[str, tuple[str, bytes, str, str]] = {
    "lfs onnx": ("model.onnx", LFS, "a pointer of Git LFS", "git lfs pull"),
    "lfs mindir": ("model.mindir", LFS, "a pointer of Git LFS", "git lfs pull"),
    "lfs ms": ("model.ms", LFS, "a pointer of Git LFS", "git lfs pull"),
    "torch": ("model.pt", TORCH, "a checkpoint of PyTorch", "torch.onnx.export"),
    "torch of hub": ("pytorch_model.bin", TORCH, "a checkpoint of PyTorch", "no pickles"),
    "torch as onnx": ("model.onnx", TORCH, "a checkpoint of PyTorch", "torch.onnx.export"),
    "torch cut short": ("model.bin", TORCH[:60], "a checkpoint of PyTorch", "export"),
    "torch before zip": (
        "old.pth",
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "a checkpoint of PyTorch",
        "torch.onnx.export",
    ),
    "torchscript": (
        "model.pt",
        zipped("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"),
        "a TorchScript module",
        "torch.jit.load",
    ),
    "torch.export": (
        "model.pt2",
        zipped("m/archive_format", "m/models/model.json", "m/data/weights/weight_0"),
        "a program that torch.export.save wrote",
        "torch.export.load",
    ),
    "pickle": ("model.pkl", PICKLE, "a pickle", "no pickles"),
    "html": ("model.onnx", b"\n<!DOCTYPE html><html><body>404", "a web page", "/resolve/"),
    "html ms": ("model.ms", b"<html><head>", "a web page", "Download the file itself"),
    "xml error": ("m.onnx", b'<?xml version="1.0"?><Error>Denied</Error>', "an XML", "download"),
    "error text": ("m.onnx", b"Entry not found", "begins with 'Entry not found'", "Name the"),
    "ort": ("model.ort", b"\x1c\0\0\0ORTM\0\0", "(.ort)", "Name the ONNX file"),
    "ort as onnx": ("model.onnx", b"\x08\0\0\0ORTM\0\0", "(.ort)", "Name the ONNX file"),
    "tflite": ("model.tflite", b"\x1c\0\0\0TFL3", "TensorFlow Lite", "--tflite"),
    "safetensors": (
        "model.safetensors",
        len(SAFETENSORS).to_bytes(8, "little") + SAFETENSORS + bytes(4),
        "a safetensors file",
        "rankmesh slice",
    ),
    "gguf": ("model.gguf", b"GGUF\3\0\0\0", "a GGUF file", "optimum-cli"),
    "ggml": ("model.bin", b"tjgg\3\0\0\0", "a GGUF file", "optimum-cli"),
    "zip": ("model.zip", zipped("model.onnx"), "a ZIP archive", "unzip"),
    "tar": ("model.tar", tarred(), "a tar archive", "tar xf"),
    "gzip": ("model.onnx.gz", gzip.compress(b"model"), "a compressed file", "gunzip"),
    "7z": ("model.7z", b"7z\xbc\xaf\x27\x1c\0\4", "a compressed file", "7z x"),
    "xz": ("model.tar.xz", b"\xfd7zXZ\0\0\4", "a compressed file", "tar xf"),
    "zstd": ("model.onnx.zst", b"\x28\xb5\x2f\xfd\4", "a compressed file", "unzstd"),
    "npz": ("in.npz", arrays(x=np.zeros(2)), "an NPZ file", "--inputs"),
    "npy": ("in.npy", array(), "an array of numpy", "--inputs"),
    "json": ("config.json", b'{"model_type": "bert"}', "a JSON text", "name the folder"),
    "empty onnx": ("model.onnx", b"", "is empty", "copy or download it again"),
    "empty mindir": ("model.mindir", b"", "is empty", "copy or download it again"),
    "empty ms": ("model.ms", b"", "is empty", "copy or download it again"),
    "tensorrt": ("model.engine", b"ftrt\0\0\0\0", "an engine of TensorRT", "ONNX file"),
    "tensorrt plan": ("model.plan", bytes(64), "an engine of TensorRT", "ONNX file"),
    "coreml": (
        "model.mlmodel",
        b"\x08\x04" + message(2, message(1, message(1, b"image"))),
        "a model of Core ML",
        "ONNX",
    ),
    "keras": (
        "model.keras",
        zipped("metadata.json", "config.json", "model.weights.h5"),
        "a model of Keras",
        "tf2onnx",
    ),
    "h5": ("model.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file", "tf2onnx"),
    "frozen": ("frozen.pb", NODE, "a frozen graph of TensorFlow", "--graphdef"),
    "saved_model.pb": ("saved_model.pb", SAVED_MODEL, "a SavedModel", "--saved-model"),
    "openvino": (
        "model.xml",
        b'<?xml version="1.0"?>\n<net name="m" version="11">',
        "a model of OpenVINO",
        "ONNX",
    ),
    "caffe": ("net.prototxt", b"name: 'net'\nlayer {}", "a model of Caffe", "caffe2onnx"),
    "ascend": ("model.om", b"IMOD\0\0\1\0", "compiled for Ascend", "ONNX file"),
    "mindspore": (
        "net.ckpt",
        message(1, message(1, b"conv.weight") + message(2, b"\x08\x01\x12\x05Float")),
        "a checkpoint of MindSpore",
        "mindspore.export",
    ),
    "library": ("libmodel.so", b"\x7fELF\2\1\1\0", "a program or a library", "Name the model"),
}
NAMES = {
    "https://huggingface.co/a/b/resolve/main/model.onnx": "curl -LO https://huggingface.co/a/b",
    "http://host/model.mindir": "curl -LO http://host/model.mindir",
    "hf://org/model": "hf download org/model --local-dir",
    "s3://bucket/model.onnx": "aws s3 cp s3://bucket/model.onnx model.onnx",
    "gs://bucket/model.onnx": "gcloud storage cp",
    "file:///models/model.onnx": "Give the path alone: /models/model.onnx",
    "bert-org/bert-base": "hf download bert-org/bert-base",
    "~/none/model.onnx": "~ is expanded by shells only. Give the whole path: /",
    "$NONE_SUCH/model.onnx": "variables are expanded by shells only",
    "C:\\models\\model.onnx": "a path of Windows",
}


def _built(path: str, folder: Path) -> None:
    rankmesh.Model().build_from_file(path, rankmesh.ModelType.MINDIR)


def _converted(path: str, folder: Path) -> None:
    convert_model(ConversionSettings(path, str(folder / "out")))


WAYS: dict[str, Callable[[str, Path], object]] = {
    "inspect": lambda path, folder: inspect_model(path, True),
    "Model": _built,
    "slice": lambda path, folder: plan_slices(path, 2),
    "convert": _converted,
}


def refusals(path: str, folder: Path) -> dict[str, str]:
    """What each way says about a path."""
    found = {}
    for name, way in WAYS.items():
        with pytest.raises(RankmeshError) as caught:
            way(path, folder)
        found[name] = str(caught.value)
    return found


@pytest.mark.parametrize("case", FILES)
def test_a_file_of_another_kind_is_named_with_its_remedy(tmp_path: Path, case: str) -> None:
    name, content, what, remedy = FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    for way, text in refusals(str(path), tmp_path).items():
        assert f"{path}: is " in text and what in text and remedy in text, f"{way}: {text}"


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_path_is_told_with_its_remedy(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for way, text in refusals(name, tmp_path).items():
        assert f"{name}: " in text and NAMES[name] in text, f"{way}: {text}"


def test_folders_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(SAVED_MODEL)
    (tmp_path / "m.mlpackage").mkdir()
    (tmp_path / "m.mlpackage" / "Manifest.json").write_text("{}")
    for name, what in (("saved", "a SavedModel of TensorFlow"), ("m.mlpackage", "of Core ML")):
        for way, text in refusals(str(tmp_path / name), tmp_path).items():
            assert what in text, f"{way}: {text}"


@pytest.mark.parametrize("case", ["lfs ms", "torch", "html"])
def test_processes_say_the_same(tmp_path: Path, case: str) -> None:
    name, content, what, remedy = FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    for arguments in (("run", path), ("slice", path, "--ranks", 2, "-o", tmp_path / "o")):
        done = command(*arguments, RANKMESH_CACHE="off")
        assert done.returncode == 3 and what in done.stderr and remedy in done.stderr, done.stderr
    with pytest.raises(ModelError, match=what), rankmesh.Orchestrator(str(path), cache=False):
        pass


def test_a_server_says_it_of_the_paths_in_its_settings(tmp_path: Path) -> None:
    """Which are those of the folder of the file."""
    (tmp_path / "serve.yaml").write_text("models:\n  - {path: 'https://host/model.onnx'}\n")
    done = command("serve", tmp_path / "serve.yaml", "--port", 0)
    assert done.returncode and "curl -LO https://host/model.onnx" in done.stderr, done.stderr


@pytest.mark.parametrize("head", [b"\x08\x08", b"\x08\x08" + message(2, b"pytorch")])
def test_models_with_the_suffix_of_another_kind_are_read(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "model.pb").write_bytes(head)
    with pytest.raises(ModelError, match="holds no graph"):
        load_model(str(tmp_path / "model.pb"))
