"""Triton repositories that are served: answers equal to onnxruntime's, and changes at run time."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from processes import wait_until
from served_grpc import connected, infer_message
from served_http import ServerProcess, binary, serving, tensor
from triton_repositories import times, write, write_documented

from rankmesh import ModelError, Orchestrator
from rankmesh.orchestrator.server.grpc.protocol import inference
from rankmesh.orchestrator.server.triton.repositories import ModelRepositories

ROW = np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    write_documented(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[ServerProcess]:
    options = ("--management", "--grpc-port", "0")
    with serving(f"--model-repository={repository}", *options) as made:
        yield made


def expected(repository: Path, place: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of onnxruntime."""
    path = repository / place / "model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def factor(server: ServerProcess, place: str) -> float:
    """By how much a model of `times` multiplies."""
    reply = server.infer(place, [tensor("x", ROW)])
    assert reply.status == 200, reply.body
    return reply.json["outputs"][0]["data"][1]


def states(server: ServerProcess) -> dict[tuple[str, str], str]:
    found = server.post("/v2/repository/index", {}).json
    return {(one["name"], one["version"]): one["state"] for one in found}


def test_simple_answers_as_onnxruntime(server: ServerProcess, repository: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {f"INPUT{at}": rng.integers(-99, 99, (3, 16)).astype(np.int32) for at in (0, 1)}
    reply = server.infer("simple", [tensor(name, one, "INT32") for name, one in rows.items()])
    assert reply.status == 200, reply.body
    for got, want in zip(
        reply.json["outputs"], expected(repository, "simple/1", rows), strict=True
    ):
        assert np.array_equal(np.reshape(got["data"], got["shape"]), want)
    page = server.get("/v2/models/simple").json
    assert (page["platform"], page["versions"]) == ("onnxruntime_onnx", ["1"])
    assert page["inputs"][0] == {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]}


def test_simple_string_answers_as_onnxruntime(server: ServerProcess, repository: Path) -> None:
    numbers = np.random.default_rng(0).integers(-99, 99, (2, 3, 16))
    rows = {f"INPUT{at}": numbers[at].astype(str).astype(object) for at in (0, 1)}
    given = [
        {"name": name, "shape": [3, 16], "datatype": "BYTES", "data": one.reshape(-1).tolist()}
        for name, one in rows.items()
    ]
    reply = server.infer("simple_string", given)
    assert reply.status == 200, reply.body
    for got, want in zip(
        reply.json["outputs"], expected(repository, "simple_string/1", rows), strict=True
    ):
        assert (got["datatype"], got["shape"]) == ("BYTES", [3, 16])
        assert got["data"] == want.reshape(-1).tolist()


def test_reshaped_tensors_of_small_requests_that_repeat(server: ServerProcess) -> None:
    parameters = {"binary_data_output": True}
    with connected(server.grpc_port) as client:
        for start in range(5):  # the first is read as a whole, and later ones by what it told
            square = np.arange(start, start + 4, dtype=np.float32).reshape(2, 2)
            given = {"inputs": [binary("x", square)], "parameters": parameters}
            reply = server.post("/v2/models/turned/infer", given, square.tobytes())
            assert reply.array().tolist() == (2 * square).reshape(-1).tolist()
            document = json.loads(
                reply.body[: int(reply.headers["inference-header-content-length"])]
            )
            assert document["outputs"][0]["shape"] == [1, 4]
            answer = client.send("ModelInfer", infer_message("turned", {"x": square}))
            assert answer.outputs[0].shape == [1, 4]
            assert answer.raw_output_contents[0] == (2 * square).tobytes()


def test_an_ensemble_is_a_chain_of_its_steps(server: ServerProcess) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    reply = server.infer("scaled", [tensor("RAW", rows)])
    assert reply.status == 200, reply.body
    (output,) = reply.json["outputs"]
    assert (output["name"], output["shape"]) == ("SCALED", [2, 4])
    assert output["data"] == (10 * rows).reshape(-1).tolist()
    page = server.get("/v2/models/scaled").json
    assert (page["platform"], page["versions"]) == ("ensemble", ["1"])
    assert page["inputs"] == [{"name": "RAW", "datatype": "FP32", "shape": [-1, 4]}]
    config = server.get("/v2/models/scaled/config").json
    assert config["ensemble_scheduling"]["step"][1]["input_map"] == {"x": "doubled"}
    many = server.infer("scaled", [tensor("RAW", np.zeros((5, 4), np.float32))])
    assert "expected 4 or fewer: max_batch_size" in many.error
    refused = server.post("/v2/repository/models/inferred/unload", {})
    assert "inferred: cannot be unloaded" in refused.error
    assert "is a step of the chain 'one_row'" in refused.error


def test_tensors_between_steps_have_the_shapes_of_clients(server: ServerProcess) -> None:
    """`flat` takes [rows] for the [rows, 1] of clients; `one_row` gives `inferred` a single row."""
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    rows = np.arange(2, dtype=np.float32).reshape(2, 1)
    for model, given, want in (("reshaped", rows, 4 * rows), ("one_row", square, 10 * square)):
        (output,) = server.infer(model, [tensor("RAW", given)]).json["outputs"]
        assert output["data"] == want.reshape(-1).tolist()
        assert output["shape"] == ([2, 1] if model == "reshaped" else [4])


def test_more_rows_than_max_batch_size_are_refused(server: ServerProcess) -> None:
    rows = np.zeros((9, 16), np.int32)
    reply = server.infer("simple", [tensor(f"INPUT{at}", rows, "INT32") for at in (0, 1)])
    assert (reply.status, reply.error) == (
        400,
        "simple: the input 'INPUT0' has 9 rows, expected 8 or fewer: max_batch_size.",
    )
    inputs = [tensor(f"INPUT{at}", rows[: at + 1], "INT32") for at in (0, 1)]
    assert "different numbers of rows" in server.infer("simple", inputs).error


def test_reshaped_tensors_and_labels_in_every_form(server: ServerProcess, repository: Path) -> None:
    image = np.random.default_rng(1).standard_normal((3, 224, 224), np.float32)
    (want,) = expected(repository, "densenet_onnx/1", {"data_0": image[None]})
    given = {"inputs": [binary("data_0", image)], "parameters": {"binary_data_output": True}}
    # large enough to be received in the memory of the ranks
    reply = server.post("/v2/models/densenet_onnx/infer", given, image.tobytes())
    assert np.array_equal(reply.array(), want.reshape(-1))
    with connected(server.grpc_port) as client:
        request = inference.ModelInferRequest(model_name="densenet_onnx")
        request.inputs.add(name="data_0", datatype="FP32", shape=image.shape)
        request.raw_input_contents.append(image.tobytes())
        answer = client.send("ModelInfer", request)
    assert list(answer.outputs[0].shape) == [1000]
    assert answer.raw_output_contents[0] == want.tobytes()
    best = int(want.argmax())
    for name, given, output in (
        ("densenet_onnx", "data_0", "fc6_1"),
        ("classes", "image", "classes"),  # an ensemble has the labels of its step
    ):
        wish = {"name": output, "parameters": {"classification": 1}}
        top = server.infer(name, [tensor(given, image)], outputs=[wish])
        assert top.json["outputs"][0]["data"] == [f"{want.max():f}:{best}:CLASS {best}"]


def test_a_repository_may_be_empty_where_clients_load_models(tmp_path: Path) -> None:
    with serving(f"--model-repository={tmp_path}", "--management") as server:
        assert states(server) == {}
        write(tmp_path, "first", None, (1, times(2)))
        assert server.post("/v2/repository/models/first/load", {}).status == 200
        assert factor(server, "first") == 2


def test_the_configuration_is_told_in_both_protocols(server: ServerProcess) -> None:
    page = server.get("/v2/models/densenet_onnx/config").json
    assert page["input"][0]["reshape"] == {"shape": [1, 3, 224, 224]}
    assert page["output"][0]["label_filename"] == "densenet_labels.txt"
    with connected(server.grpc_port) as client:
        config = client.call("ModelConfig", name="densenet_onnx").config
    assert (config.platform, config.backend) == ("onnxruntime_onnx", "onnxruntime")
    assert list(config.input[0].reshape.shape) == [1, 3, 224, 224]


def test_versions_have_the_numbers_of_their_folders(server: ServerProcess) -> None:
    assert server.get("/v2/models/versions").json["versions"] == ["1", "3"]
    assert (factor(server, "versions"), factor(server, "versions/versions/1")) == (3, 2)
    assert server.get("/v2/models/versions/versions/2").status == 404


def test_models_without_configuration(server: ServerProcess) -> None:
    assert factor(server, "inferred") == 5
    assert server.get("/v2/models/inferred/config").json["max_batch_size"] == 4
    reply = server.infer("fixed%20model", [tensor("x", ROW[0])])
    assert reply.json["outputs"][0]["data"] == [0, 2, 4, 6]


def test_a_load_reads_the_folder_again(server: ServerProcess, repository: Path) -> None:
    write(repository, "later", None, (1, times(2)))
    assert server.post("/v2/repository/models/none/load", {}).status == 404
    assert server.post("/v2/repository/models/later/load", {}).status == 200
    assert factor(server, "later") == 2
    write(repository, "later", "version_policy { all {} }", (1, times(3)), (4, times(4)))
    assert server.post("/v2/repository/models/later/load", {}).status == 200
    assert (factor(server, "later/versions/1"), factor(server, "later")) == (3, 4)
    write(repository, "later", "max_batch_size: many")
    reply = server.post("/v2/repository/models/later/load", {})
    assert reply.status == 400 and "config.pbtxt:1: is no ModelConfig" in reply.error
    assert str(repository) not in reply.error
    assert factor(server, "later") == 4
    write(repository, "later", None)
    assert server.post("/v2/repository/models/later/unload", {}).status == 200
    assert server.get("/v2/models/later").status == 404


def test_hup_polls_the_repository(server: ServerProcess, repository: Path) -> None:
    write(repository, "new", None, (1, times(6)))
    write(repository, "inferred", None, (1, times(7)))
    shutil.rmtree(repository / "fixed model")
    before = server.get("/v2/models/simple/stats").json
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ("fixed model", "1") not in states(server), "the model that is gone")
    wait_until(lambda: states(server).get(("new", "1")) == "READY", "the new model")
    wait_until(lambda: factor(server, "inferred") == 7, "the changed model")
    assert factor(server, "new") == 6
    assert server.get("/v2/models/inferred").json["versions"] == ["1"]
    assert server.get("/v2/models/simple/stats").json == before


def test_ranks_run_their_samples_before_the_model_is_ready(tmp_path: Path) -> None:
    config = """
    max_batch_size: 4
    model_warmup {
      name: "file" batch_size: 2
      inputs { key: "x" value { data_type: TYPE_FP32 dims: [4] input_data_file: "row" } }
    }
    """
    folder = write(tmp_path, "warm", config, (1, times(2)))
    (folder / "warmup").mkdir()
    (folder / "warmup" / "row").write_bytes(ROW.tobytes())
    models = ModelRepositories([str(tmp_path)]).models()
    with Orchestrator(models) as orchestrator:
        assert orchestrator.predict(ROW)["y"].tolist() == (2 * ROW).tolist()
        assert orchestrator.metrics()["warm"]["accepted"] == 1
        (folder / "warmup" / "row").write_bytes(b"short")
        with pytest.raises(ModelError, match="the warm-up sample 'file': .* has 5 bytes"):
            orchestrator.replace(models)
