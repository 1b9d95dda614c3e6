"""The REST protocol as clients see it, from `rankmesh serve` with two models."""

from __future__ import annotations

import gzip
import json
import re
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deploy import page_metrics, used_metrics
from onnx import save
from onnx_models import model, node
from processes import wait_until
from prometheus_client.parser import text_string_to_metric_families
from served_http import ServerProcess, binary, serving, tensor
from served_models import TYPES, doubler, echo, typed

DOCUMENT = Path(__file__).parents[4] / "docs" / "serving.md"
X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.full(1, 0.5, np.float32)
BOTH = [tensor("x", X), tensor("bias", BIAS)]
LARGE = 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("models")
    named = model([node("Identity", "model", "y")], {"model": ["n"]}, {"y": ["n"]})
    save(named, str(folder / "named.onnx"))
    open_sizes = model([node("Identity", "x", "y")], {"x": ["n", "m"]}, {"y": ["n", "m"]})
    save(open_sizes, str(folder / "grid.onnx"))
    named_paths = [folder / "named.onnx", folder / "grid.onnx"]
    paths = [doubler(folder), echo(folder, LARGE), typed(folder), *named_paths]
    settings = folder / "serve.yaml"
    (folder / "labels.txt").write_text("apple\npear\nplum\nbanana\n")
    settings.write_text(
        "models:\n"
        + "".join(f"  - path: {path}\n" for path in paths)
        + "    labels: {y: labels.txt}\n"
    )
    with serving(settings) as made:
        yield made


def test_requests_that_repeat_have_tensors_and_refusals_of_their_own(server: ServerProcess) -> None:
    wishes = [{"name": name, "parameters": {"binary_data": True}} for name in ("s", "y")]
    for n, rows in enumerate([2, 3, 2, 3, 2]):
        x, bias = np.full((rows, 4), n, np.float32), np.full(1, n, np.float32)
        document = {"inputs": [binary("bias", bias), binary("x", x)], "outputs": wishes}
        tail = bias.tobytes() + x.tobytes()
        reply = server.post("/v2/models/doubler/infer", document, tail)
        np.testing.assert_array_equal(reply.array(), [n, *[3 * n] * rows * 4])
        late = {**document, "parameters": {"timeout": 1}}
        assert server.post("/v2/models/doubler/infer", late, tail).status == 504


def test_the_server_and_its_models_are_described(server: ServerProcess) -> None:
    about = server.get("/v2").json
    assert about["name"] == "rankmesh" and "binary_tensor_data" in about["extensions"]
    for path, answer in (
        ("health/live", {"live": True}),
        ("health/ready", {"ready": True}),
        ("models/doubler/ready", {"ready": True, "name": "doubler"}),
    ):
        reply = server.get(f"/v2/{path}")
        assert (reply.status, reply.json) == (200, answer)
    for path in ("/v2/models/doubler", "/v2/models/doubler/versions/1"):
        assert server.get(path).json == {
            "name": "doubler",
            "versions": ["1"],
            "platform": "rankmesh",
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [-1, 4]},
                {"name": "bias", "datatype": "FP32", "shape": [1]},
            ],
            "outputs": [
                {"name": "y", "datatype": "FP32", "shape": [-1, 4]},
                {"name": "s", "datatype": "FP32", "shape": [1]},
            ],
        }
        assert server.get(f"{path}/ready").status == 200
    assert server.get("/v2/models/doubler/config").json["input"][0] == {
        "name": "x",
        "data_type": "TYPE_FP32",
        "dims": [-1, 4],
    }
    index = server.post("/v2/repository/index", {"ready": True}).json
    assert [(one["name"], one["state"]) for one in index] == [
        ("doubler", "READY"),
        ("echo", "READY"),
        ("types", "READY"),
        ("named", "READY"),
        ("grid", "READY"),
    ]
    assert server.ask("HEAD", "/v2").body == b""
    assert server.get("/v2?format=json").json == about
    assert server.get("/v2/models/echo/trace/setting").json["trace_level"] == ["OFF"]
    assert server.get("/v2/logging").json["log_warning"] is True


def test_nan_and_infinities_come_back_in_json(server: ServerProcess) -> None:
    x = np.array([[np.nan, np.inf, -np.inf, 1]], np.float32)
    reply = server.infer("grid", [{**tensor("x", x), "data": x.tolist()}])
    assert b'"data":[NaN,Infinity,-Infinity,1.0]' in reply.body


@pytest.mark.parametrize("nested", [False, True])
def test_json_in_and_out(server: ServerProcess, nested: bool) -> None:
    given = [{**BOTH[0], "data": X.tolist()} if nested else BOTH[0], BOTH[1]]
    reply = server.infer("doubler", given, id="order 66", parameters={"priority": 1})
    assert reply.status == 200 and reply.json["id"] == "order 66"
    y, s = reply.json["outputs"]
    assert (y["name"], y["datatype"], y["shape"]) == ("y", "FP32", [2, 4])
    assert y["data"] == (2 * X + 0.5).reshape(-1).tolist() and s["data"] == [0.5]


def test_binary_in_and_out_and_chosen_outputs(server: ServerProcess) -> None:
    document = {
        "inputs": [binary("bias", BIAS), tensor("x", X)],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    reply = server.post("/v2/models/doubler/versions/1/infer", document, BIAS.tobytes())
    assert reply.headers["content-type"] == "application/octet-stream"
    np.testing.assert_array_equal(reply.array().reshape(2, 4), 2 * X + 0.5)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_binary_body_comes_back(server: ServerProcess, chunked: bool) -> None:
    x = np.random.default_rng(1).random(LARGE, np.float32)
    document = json.dumps(
        {"inputs": [binary("x", x)], "parameters": {"binary_data_output": True}}
    ).encode()
    body = document + x.tobytes()
    headers = {"Inference-Header-Content-Length": str(len(document))}
    parts: Any = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    reply = server.ask("POST", "/v2/models/echo/infer", parts if chunked else body, headers)
    np.testing.assert_array_equal(reply.array(), x)


def test_the_memory_of_a_body_whose_client_leaves_is_free_again(server: ServerProcess) -> None:
    def used() -> float:
        page = server.get("/metrics").body.decode()
        return float(re.findall(r"(?m)^rankmesh_shared_memory_used_bytes{.*} (.*)$", page)[0])

    headers = {"Inference-Header-Content-Length": "0"}
    body = bytes(4 * LARGE)
    for _ in range(2):
        assert server.ask("POST", "/v2/models/echo/infer", body, headers).status == 200
    before = used()
    head = f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"{head}\r\n{next(iter(headers))}: 0\r\n\r\n".encode() + body[:-1])
        wait_until(lambda: used() > before, "the body to have memory")
    wait_until(lambda: used() == before, "its memory to be free")


def test_an_input_may_have_any_name(server: ServerProcess) -> None:
    x = np.ones(LARGE, np.float32)
    document = {"inputs": [binary("model", x)], "parameters": {"binary_data_output": True}}
    reply = server.post("/v2/models/named/infer", document, x.tobytes())
    np.testing.assert_array_equal(reply.array(), x)


@pytest.mark.parametrize("in_json", [False, True])
def test_every_datatype_comes_back(server: ServerProcess, in_json: bool) -> None:
    values = {name: np.array([0, 1, 1], kind) for name, kind in TYPES.items()}
    form = tensor if in_json else binary
    inputs = [form(name.lower(), array, name) for name, array in values.items()]
    if in_json:
        inputs[-1]["data"] = [0.0, 1.0, 1.0]
    tail = b"" if in_json else b"".join(array.tobytes() for array in values.values())
    reply = server.post("/v2/models/types/infer", {"inputs": inputs}, tail)
    assert reply.status == 200, reply.body
    for (name, array), output in zip(values.items(), reply.json["outputs"], strict=True):
        assert (output["name"], output["datatype"]) == (f"{name.lower()}_out", name)
        assert output["data"] == [0, 1, 1] == array.astype(float).tolist()


@pytest.mark.parametrize("how", ["plain", "chunked", "gzip"])
@pytest.mark.parametrize("size", [8, LARGE])
def test_a_body_may_be_the_one_input_alone(server: ServerProcess, how: str, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    body: Any = gzip.compress(x.tobytes(), 1) if how == "gzip" else x.tobytes()
    headers = {"Inference-Header-Content-Length": "0"}
    if how == "gzip":
        headers["Content-Encoding"] = "gzip"
    reply = server.ask(
        "POST", "/v2/models/named/infer", iter([body]) if how == "chunked" else body, headers
    )
    np.testing.assert_array_equal(reply.array(), x)


@pytest.mark.parametrize(
    ("model", "size", "text"),
    [
        ("doubler", 4, "needs a model with one input, and this one has ['x', 'bias']"),
        ("named", 7, "7 bytes, expected a multiple of 4 for the shape [-1]"),
        ("echo", 8, f"has 8 bytes, expected {4 * LARGE}"),
        ("grid", 8, "an input with at most one open size, and this one has (-1, -1)"),
    ],
)
def test_a_body_alone_must_tell_the_shape(
    server: ServerProcess, model: str, size: int, text: str
) -> None:
    headers = {"Inference-Header-Content-Length": "0"}
    reply = server.ask("POST", f"/v2/models/{model}/infer", bytes(size), headers)
    assert reply.status == 400 and text in reply.error, reply.error


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"sequence_id": 7}, "sequence_id: models keep no state"),
        ({"sequence_id": "a", "sequence_start": True}, "sequence_id: models keep no state"),
        ({"sequence_end": True}, "sequence_end: models keep no state"),
        ({"priority": "high"}, "priority: got 'high', expected a whole number"),
        ({"timeout": -1}, "timeout: got -1"),
        ({"unknown": {"a": 1}}, "got `object`"),
        ({"unknown": "it is ignored", "sequence_id": 0, "sequence_end": False}, ""),
    ],
)
def test_parameters_are_refused_or_ignored(
    server: ServerProcess, parameters: Any, text: str
) -> None:
    reply = server.infer("doubler", BOTH, parameters=parameters)
    assert reply.status == (400 if text else 200)
    assert not text or text in reply.error, reply.error


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_long_document_is_read_in_parts(server: ServerProcess, encoding: str) -> None:
    x = np.arange(30_000, dtype=np.float32).reshape(-1, 2)
    body = json.dumps({"inputs": [tensor("x", x)]}).encode()
    headers = {"Content-Encoding": encoding} if encoding else {}
    reply = server.ask(
        "POST", "/v2/models/grid/infer", gzip.compress(body) if encoding else body, headers
    )
    assert reply.json["outputs"][0]["data"] == x.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("sent", "status", "error"),
    [
        (b"[1]," * (1 << 20), 400, "1048584 elements, expected 8 for the shape [2, 4]"),
        (b"1," * (1 << 20), 400, "1048584 elements, expected 8 for the shape [2, 4]"),
        (b'"",' * (1 << 20), 413, "beside its lists of numbers"),
    ],
)
def test_a_body_that_grows_is_refused_by_its_length(
    server: ServerProcess, sent: bytes, status: int, error: str
) -> None:
    document = json.dumps({"inputs": [tensor("x", X), tensor("bias", BIAS)]}).encode()
    body = gzip.compress(document.replace(b"[0.0,", b"[" + sent + b"0.0,"), 1)
    headers = {"Content-Encoding": "gzip"}
    reply = server.ask("POST", "/v2/models/doubler/infer", body, headers)
    assert reply.status == status and error in reply.json["error"]


def test_a_long_body_that_brings_no_tensor_is_refused(server: ServerProcess) -> None:
    reply = server.ask("POST", "/v2/repository/index", b'{"x": [' + b"1," * (1 << 20) + b"1]}")
    assert reply.status == 413 and "no tensors are expected" in reply.json["error"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_bodies(server: ServerProcess, encoding: str) -> None:
    body = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding](
        json.dumps({"inputs": BOTH}).encode()
    )
    reply = server.ask("POST", "/v2/models/doubler/infer", body, {"Content-Encoding": encoding})
    assert reply.json["outputs"][1]["data"] == [0.5]


def test_classification(server: ServerProcess) -> None:
    wish = {"name": "y", "parameters": {"classification": 2}}
    (y,) = server.infer("doubler", BOTH, outputs=[wish]).json["outputs"]
    assert (y["datatype"], y["shape"]) == ("BYTES", [2, 2])
    assert y["data"] == ["6.500000:3", "4.500000:2", "14.500000:3", "12.500000:2"]


def test_classes_have_the_labels_of_the_settings(server: ServerProcess) -> None:
    x = np.array([[1, 9, 3, 7, 8]], np.float32)  # the file has four labels
    wish = {"name": "y", "parameters": {"classification": 3}}
    (y,) = server.infer("grid", [tensor("x", x)], outputs=[wish]).json["outputs"]
    assert y["data"] == ["9.000000:1:pear", "8.000000:4", "7.000000:3:banana"]


def test_statistics_count_requests(server: ServerProcess) -> None:
    path = "/v2/models/doubler/stats"
    before = server.get(path).json["model_stats"][0]
    server.infer("doubler", BOTH)
    after = server.get(path).json["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 1
    assert after["inference_stats"]["success"]["ns"] > before["inference_stats"]["success"]["ns"]
    assert after["last_inference"] >= before["last_inference"]
    assert after["inference_stats"]["cache_hit"] == {"count": 0, "ns": 0}
    assert after["response_stats"] == {} and after["memory_usage"] == []
    assert len(server.get("/v2/models/stats").json["model_stats"]) == 5


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([BOTH[0]], r"doubler: got the inputs ['x'], expected ['x', 'bias'], each once."),
        ([BOTH[0], BOTH[0]], "each once"),
        ([BOTH[0], {**BOTH[1], "datatype": "INT32"}], "datatype INT32, expected FP32"),
        ([BOTH[0], {**BOTH[1], "datatype": "BYTES"}], "it takes no BYTES"),
        ([BOTH[0], {**BOTH[1], "datatype": "BYTES", "data": ["a"]}], "takes no BYTES"),
        ([BOTH[0], binary("bias", BIAS, "BYTES")], "it takes no BYTES"),
        ([BOTH[0], {**BOTH[1], "shape": [2]}], "has the shape [2], expected [1] (-1: any)"),
        ([BOTH[0], {**BOTH[1], "shape": [-1]}], "has the shape [-1]"),
        ([BOTH[0], {**BOTH[1], "data": [1, 2]}], "has 2 elements, expected 1"),
        ([BOTH[0], {**BOTH[1], "data": ["a"]}], "Expected `float`, got `str`"),
        ([BOTH[0], binary("bias", X)], "shape [2, 4], expected [1]"),
        ([BOTH[0], {**binary("bias", BIAS), "shape": [1]}], "announce 4 bytes of tensors, and 0"),
        ([BOTH[0], {**BOTH[1], "data": [1e39]}], "a number that is out of the range of FP32"),
        ([{"name": "x"}], "missing required field `shape`"),
    ],
)
def test_wrong_inputs_are_told(server: ServerProcess, inputs: Any, text: str) -> None:
    reply = server.infer("doubler", inputs)
    assert reply.status == 400 and text in reply.error, reply.error


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        (
            "GET",
            "/v2/models/bert",
            404,
            "no model 'bert': there are doubler, echo",
        ),
        ("GET", "/v2/models/echo/versions/2", 404, "no version '2'"),
        ("GET", "/v3", 404, "/v2/openapi.json lists all"),
        ("GET", "/v2/models/echo/infer", 405, "got GET, expected POST"),
        ("POST", "/v2/models/echo/infer", 400, "the document of the request"),
        ("POST", "/v2/repository/models/echo/unload", 403, "management of models is off"),
        ("POST", "/v2/systemsharedmemory/region/a/register", 400, "shared memory"),
        ("POST", "/v2/trace/setting", 400, "tracing"),
        ("POST", "/v2/models/echo/trace/setting", 400, "tracing"),
        ("POST", "/v2/logging", 400, "log settings are those of the command"),
    ],
)
def test_wrong_paths_are_told(
    server: ServerProcess, method: str, path: str, status: int, text: str
) -> None:
    reply = server.ask(method, path)
    assert reply.status == status and text in reply.error
    assert reply.headers.get("allow") == ("POST" if status == 405 else None)


def test_a_request_that_comes_too_late_is_told(server: ServerProcess) -> None:
    x = np.zeros(LARGE, np.float32)
    document = {"inputs": [binary("x", x)], "parameters": {"timeout": 1}}
    reply = server.post("/v2/models/echo/infer", document, x.tobytes())
    assert reply.status == 504 and "not answered within" in reply.error, reply.error


def test_pages_of_other_sites_and_names_are_refused(server: ServerProcess) -> None:
    assert server.ask("GET", "/v2", headers={"Host": "evil.example"}).status == 421
    assert server.ask("GET", "/v2", headers={"Origin": "http://evil.example"}).status == 403
    assert server.ask("GET", "/v2", headers={"Host": "localhost:1"}).status == 200


VERSION = {("version", "1")}


def test_metrics_are_those_of_the_page_and_add_up(server: ServerProcess) -> None:
    server.infer("doubler", BOTH)
    server.infer("doubler", BOTH, parameters={"timeout": 1})
    page = server.get("/metrics").body.decode()
    found = {
        (one.name, *sorted(set(one.labels.items()) - VERSION)): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }
    doubler = ("model", "doubler")
    answered = found["rankmesh_answered_total", doubler]
    failed = found["rankmesh_failed_total", ("error", "DeadlineExceeded"), doubler]
    assert found["rankmesh_accepted_total", doubler] == answered + failed
    assert found["rankmesh_total_seconds_count", doubler] == answered > 0
    assert found["rankmesh_total_seconds_bucket", ("le", "+Inf"), doubler] == answered
    assert found["rankmesh_model_ready", doubler] == 1
    assert found["rankmesh_ranks", doubler, ("state", "ready")] == 1
    assert found["rankmesh_http_responses_total", ("status", "504")] >= 1
    assert found["rankmesh_http_connections",] >= 1
    names = {family.name for family in text_string_to_metric_families(page)}
    documented = re.findall(r"`((?:rankmesh|process)_\w+?)(?:_total)?`", DOCUMENT.read_text())
    assert names == set(documented)
    assert used_metrics() <= page_metrics(page)
