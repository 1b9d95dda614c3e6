"""The examples: every run.sh from another folder. tests/compatibility has the installation
scripts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from processes import segments

from rankmesh.compiler.mindir.mindir_pb2 import ModelProto

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLES = CHECKOUT / "examples"
TUTORIAL_LINE = (
    r"tensor's name is:(\S+) data size is:(\d+) tensor elements num is:(\d+)\noutput data is: (.*)"
)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder that is not the checkout; an example leaves nothing there, nor anywhere
    else.
    """
    before, shared = _files(), segments()
    folder = tmp_path / "a folder"
    folder.mkdir()
    with (
        tempfile.TemporaryDirectory(prefix="rm") as temporary,
        tempfile.TemporaryDirectory(prefix="rm") as runtime,
    ):
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield folder
        assert set(os.listdir(temporary)) <= {".ses"}  # which onnxruntime writes
        assert [name for found in Path(runtime).iterdir() for name in os.listdir(found)] == []
    assert list(folder.iterdir()) == []
    assert _files() == before
    assert segments() <= shared


def _files() -> set[Path]:
    return {path for path in EXAMPLES.rglob("*") if "__pycache__" not in path.parts}


def run(name: str, folder: Path) -> str:
    """What `bash examples/NAME/run.sh` prints."""
    script = EXAMPLES / name / "run.sh"
    assert os.access(script, os.X_OK)
    done = subprocess.run(
        ["bash", str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def models(name: str, folder: Path) -> Path:
    """The models of an example, made again: they are the same every time."""
    subprocess.run(
        [sys.executable, str(EXAMPLES / "models.py"), name, str(folder)], check=True, timeout=250
    )
    return folder


def classified(folder: Path) -> np.ndarray:
    """What plain onnxruntime gives for the model and the image in a folder."""
    (model,) = folder.glob("mobilenetv2.*")
    session = ort.InferenceSession(model.read_bytes(), providers=["CPUExecutionProvider"])
    image = np.fromfile(folder / "input.bin", np.float32).reshape(1, 224, 224, 3)
    values: np.ndarray = session.run(None, {"image": image})[0].ravel()
    return values


def parameters(path: Path) -> dict[str, np.ndarray]:
    """The weights in a MindIR file, by name."""
    entries = ModelProto.FromString(path.read_bytes()).graph.parameter
    return {
        entry.ref_key: np.frombuffer(entry.raw_data, np.float32).reshape(entry.dims)
        for entry in entries
    }


def numbers(text: str) -> np.ndarray:
    """Printed numbers."""
    return np.array(text.split(), np.float32)


def test_single(elsewhere: Path, tmp_path: Path) -> None:
    (found,) = re.findall(TUTORIAL_LINE, run("single", elsewhere))
    assert found[:3] == ("shape1", "4000", "1000")
    expected = classified(models("single", tmp_path / "model"))[:50]
    np.testing.assert_allclose(numbers(found[3]), expected, rtol=1e-4)


def test_concurrent(elsewhere: Path, tmp_path: Path) -> None:
    text = run("concurrent", elsewhere)
    answered = re.findall(
        r"^parallel id:  (\d)  \| task index:  (\d)  \| run once time:  [\d.e-]+  s\n"
        r"tensor name is:Softmax-65 tensor size is:4004 tensor elements num is:1001\noutput data is: (.*)$",  # noqa: E501
        text,
        re.M,
    )
    every = {(str(client), str(task)) for client in range(5) for task in (1, 2)}
    assert Counter(found[:2] for found in answered) == dict.fromkeys(
        every, 2
    )  # with three workers, then with one
    assert len(re.findall(r"^total run time:  [\d.e-]+  s$", text, re.M)) == 2
    expected = classified(models("concurrent", tmp_path / "model"))[:5]
    for *_, values in answered:
        np.testing.assert_allclose(numbers(values), expected, rtol=1e-4)


def test_weight_sharing(elsewhere: Path, tmp_path: Path) -> None:
    text = run("weight_sharing", elsewhere)
    weights = parameters(models("weight_sharing", tmp_path / "model") / "unet.mindir")
    proj, out = weights["proj.weight"], weights["out.weight"][:, :5]
    for label, weight in (
        ("output data is", proj),
        ("with zeros for a weight", 0 * proj),
        ("with the identity for it", np.eye(512, dtype=np.float32)),
    ):
        (values,) = re.findall(rf"^{label}: (.*)$", text, re.M)
        expected = np.maximum(weight.sum(0), 0) @ out
        np.testing.assert_allclose(numbers(values), expected, atol=1e-4)
    check_three_processes(text)


def check_three_processes(text: str) -> None:
    """The owner's and the users' lines belong together, and the stranger has got an error."""
    pids = re.findall(r"^pid: (\d+)$", text, re.M)
    (listed,) = re.findall(r"^str of pids: (.*)$", text, re.M)
    assert len(pids) == 2 and sorted(listed.split(", ")) == sorted(["0", *pids])
    (handle,) = re.findall(r"^shareable handle: (\d+)$", text, re.M)
    assert (
        f"\nint shareable_handle: {handle}\n" in text
        and text.count(f"sub process sharehandle: {handle}\n") == 2
    )
    assert sorted(re.findall(r"^share  (\d)   \[array\(", text, re.M)) == ["0", "1", "2"]
    assert sorted(re.findall(r"^share  (\d) spend time: [\d.e-]+ s$", text, re.M)) == [
        "0",
        "1",
        "2",
    ]
    assert len(re.findall(r"^refused: build_from_file failed! ", text, re.M)) == 1


def test_distributed(elsewhere: Path, tmp_path: Path) -> None:
    text = run("distributed", elsewhere)
    folder = models("distributed", tmp_path / "model")
    shards = [parameters(folder / f"Matmul{rank}.mindir") for rank in (0, 1)]
    row = sum(np.maximum(shard["w1"].sum(0), 0) @ shard["w2"] for shard in shards)
    # `rankmesh launch` prints equal lines once, if they come soon after each other.
    first = re.sub(r"^\[rank 1\] .*\n|^\[ranks? 0(-1)?\] ", "", text, flags=re.M)
    found = re.findall(TUTORIAL_LINE, first)
    assert len(found) == (4 if "== mpirun\n" in text else 3)
    for name, size, count, values in found:
        assert (name, size, count) == ("output_0", "256", "64")
        np.testing.assert_allclose(numbers(values), row[:10], atol=1e-4)
    (difference,) = re.findall(
        r"^16 rows and 1 row; the first differs by at most ([\d.e-]+)$", text, re.M
    )
    assert float(difference) < 1e-4


def test_text_classifier(elsewhere: Path) -> None:
    answer = json.loads(run("text_classifier", elsewhere))
    (output,) = answer["outputs"]
    assert (answer["model_name"], output["shape"]) == ("sentiment", [2, 1])
    assert [one.rpartition(":")[2] for one in output["data"]] == ["positive", "negative"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_multi_card(elsewhere: Path) -> None:
    told, *lines = run("multi_card", elsewhere).splitlines()
    assert told == "CONVERT RESULT SUCCESS:0"
    assert lines.pop(0) == "model/SD2.1_size512_bs1.mindir"
    assert lines[:2] == ["Success to build model 0", "Success to build model 1"]
    assert re.fullmatch(r"Total predict time =  [\d.e-]+", lines[2])
    assert lines[3:5] == ["Receive exit message  and start to exit"] * 2
    assert lines[5:] == [
        "=========== success ===========",
        "DataParallel: 2 rows, as on one device",
    ]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_by_hand(elsewhere: Path) -> None:
    text = run("torch_by_hand", elsewhere)
    exporters = (
        ["torchscript", "dynamo"] if importlib.util.find_spec("onnxscript") else ["torchscript"]
    )
    assert re.findall(r"^== exporter (\w+)$", text, re.M) == exporters
    errors = re.findall(
        r"^OK: 2 outputs of 2 ranks match; largest relative error (.*)$", text, re.M
    )
    assert len(errors) == len(exporters) and all(float(error) < 1e-5 for error in errors)


def test_slicing(elsewhere: Path) -> None:
    text = run("slicing", elsewhere)
    assert re.search(r"^verified \(blocks\): \d+ values compared", text, re.M)
    found = re.findall(r"^OK: (\d) outputs? .*; largest relative error (.*)$", text, re.M)
    assert [count for count, _ in found] == ["2", "1"]  # the last stage alone has the output
    assert all(float(error) < 1e-5 for _, error in found)
