"""BYTES through a real server: REST in JSON and in binary, gRPC raw and typed, chains, programs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served_grpc import GrpcClient, connected
from served_http import ServerProcess, serving, tensor

import rankmesh
from rankmesh import InputError
from rankmesh.orchestrator.server.grpc.protocol import inference

STEPS = """\
import numpy as np


def upper(text):
    found = [one.upper() for one in text.reshape(-1)]
    sizes = np.array([len(one) for one in found]).reshape(text.shape)
    return {"big": np.array(found, object).reshape(text.shape), "size": sizes}


def label(size):
    return np.array(["long" if one > 3 else "short" for one in size])


def raw(size):
    return np.array([b"\\xff"] * len(size), object)
"""
SERVE = """\
models:
  upper:
    python: steps.py:upper
    inputs: [{name: text, dtype: bytes, dims: [-1]}]
    outputs: [{name: big, dtype: bytes, dims: [-1]}, {name: size, dtype: int64, dims: [-1]}]
  label:
    python: steps.py:label
    inputs: [{name: size, dtype: int64, dims: [-1]}]
    outputs: [{name: label, dtype: bytes, dims: [-1]}]
  raw:
    python: steps.py:raw
    inputs: [{name: size, dtype: int64, dims: [-1]}]
    outputs: [{name: raw, dtype: bytes, dims: [-1]}]
  labels:
    steps: [upper, upper again, label]
    outputs: [label, again]
  upper again: {steps: [{model: upper, inputs: {text: big}, outputs: {big: again}}], inputs: [big]}
"""
WORDS = ["ant", "Größe", ""]
BIG = [b"ANT", "Größe".encode().upper(), b""]
NAME = f"strings-{os.getpid()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("strings")
    (folder / "steps.py").write_text(STEPS)
    (folder / "serve.yaml").write_text(SERVE)
    options = ["--grpc-port", "0", "--name", NAME, "--shared-memory-prefix", f"/{NAME}"]
    with serving(folder / "serve.yaml", *options) as found:
        yield found


@pytest.fixture
def grpc(server: ServerProcess) -> Iterator[GrpcClient]:
    with connected(server.grpc_port) as client:
        yield client


def packed(elements: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(one)) + one for one in elements)


def given(data: list[str], **document: object) -> dict[str, object]:
    return {"name": "text", "shape": [len(data)], "datatype": "BYTES", "data": data, **document}


def test_metadata_names_the_datatype(server: ServerProcess) -> None:
    page = server.get("/v2/models/upper").json
    assert page["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    config = server.get("/v2/models/labels/config").json
    assert config["input"][0]["data_type"] == "TYPE_STRING"


def test_texts_in_json(server: ServerProcess) -> None:
    for _ in range(3):
        answer = server.infer("upper", [given(WORDS)]).json
        big, size = answer["outputs"]
        assert big["datatype"] == "BYTES" and big["data"] == [one.decode() for one in BIG]
        assert size["data"] == [len(one.encode()) for one in WORDS]
    labels = server.infer("labels", [given(WORDS)]).json["outputs"]
    assert labels[0]["data"] == ["short", "long", "short"]
    assert labels[1]["data"] == [one.decode() for one in BIG]


@pytest.mark.parametrize("words", [WORDS, ["x" * 200_000, "y"]])
def test_bytes_behind_the_document(server: ServerProcess, words: list[str]) -> None:
    tail = packed([one.encode() for one in words])
    size = {"binary_data_size": len(tail)}
    one = {"name": "text", "shape": [len(words)], "datatype": "BYTES", "parameters": size}
    wish = {"name": "big", "parameters": {"binary_data": True}}
    for _ in range(3):
        reply = server.post("/v2/models/upper/infer", {"inputs": [one], "outputs": [wish]}, tail)
        begin = int(reply.headers["inference-header-content-length"])
        assert reply.body[begin:] == packed([one.encode().upper() for one in words])


@pytest.fixture
def region(server: ServerProcess) -> Iterator[Path]:
    """Memory of 200 bytes with WORDS at its beginning, registered as `r`."""
    path = Path("/dev/shm") / NAME
    path.write_bytes(packed([one.encode() for one in WORDS]).ljust(200, b"\0"))
    wish = {"key": f"/{NAME}", "offset": 0, "byte_size": 200}
    assert server.post("/v2/systemsharedmemory/region/r/register", wish).status == 200
    yield path
    path.unlink()
    assert server.ask("POST", "/v2/systemsharedmemory/unregister").status == 200


def in_region(offset: int, size: int) -> dict[str, object]:
    place = {"shared_memory_offset": offset, "shared_memory_byte_size": size}
    return {"parameters": {"shared_memory_region": "r", **place}}


def test_strings_in_shared_memory(server: ServerProcess, region: Path) -> None:
    size, big = len(packed([one.encode() for one in WORDS])), packed(BIG)
    one = {"name": "text", "shape": [len(WORDS)], "datatype": "BYTES", **in_region(0, size)}
    wish = {"name": "big", **in_region(100, 50)}
    (found,) = server.infer("upper", [one], outputs=[wish]).json["outputs"]
    assert found["shape"] == [len(WORDS)] and found["datatype"] == "BYTES"
    assert found["parameters"]["shared_memory_byte_size"] == len(big)
    assert region.read_bytes()[100:].startswith(big)
    short = server.infer("upper", [{**one, **in_region(0, size - 1)}])
    assert short.status == 400 and "'text' of BYTES and the shape [3]" in short.error
    small = server.infer("upper", [one], outputs=[{"name": "big", **in_region(100, 5)}])
    assert small.status == 400 and f"has {len(big)} bytes" in small.error


def test_strings_in_shared_memory_over_grpc(grpc: GrpcClient, region: Path) -> None:
    message = inference.ModelInferRequest(model_name="upper")
    given, wish = message.inputs.add(name="text", datatype="BYTES", shape=[2]), message.outputs
    for one, offset, size in ((given, 0, 4 + 3 + 4 + 7), (wish.add(name="big"), 100, 50)):
        one.parameters["shared_memory_region"].string_param = "r"
        one.parameters["shared_memory_offset"].int64_param = offset
        one.parameters["shared_memory_byte_size"].int64_param = size
    (found,) = grpc.send("ModelInfer", message).outputs
    assert found.parameters["shared_memory_byte_size"].int64_param == len(packed(BIG[:2]))
    assert region.read_bytes()[100:].startswith(packed(BIG[:2]))


def test_raw_and_typed_contents(grpc: GrpcClient) -> None:
    message = inference.ModelInferRequest(model_name="upper")
    message.inputs.add(name="text", datatype="BYTES", shape=[3])
    typed = inference.ModelInferRequest()
    typed.CopyFrom(message)
    message.raw_input_contents.append(packed([one.encode() for one in WORDS]))
    typed.inputs[0].contents.bytes_contents.extend(one.encode() for one in WORDS)
    for one in (message, typed):
        answer = grpc.send("ModelInfer", one)
        assert [output.datatype for output in answer.outputs] == ["BYTES", "INT64"]
        assert answer.raw_output_contents[0] == packed(BIG)


@pytest.mark.usefixtures("server")
def test_another_program_gives_and_gets_arrays() -> None:
    with rankmesh.connect(NAME) as client:
        found = client.predict(WORDS, model="upper")
        assert found["big"].tolist() == BIG
        labels = client.submit({"text": np.array(WORDS)}, model="labels").result(30)
        assert labels["label"].tolist() == [b"short", b"long", b"short"]
        with pytest.raises(InputError, match="got 7, expected a text or bytes"):
            client.predict([7], model="upper")
        with pytest.raises(InputError, match="give arrays instead of buffers"):
            client.buffers("upper", text=(3,))


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (given(["a"], datatype="INT64"), "has the datatype INT64, expected BYTES"),
        (given(["a"], shape=[2]), "has 1 elements, expected 2"),
        (given([1]), "Expected `str`, got `int`"),  # type: ignore[list-item]
        (given(["a"], shape=[1, 1]), r"has the shape [1, 1], expected [-1]"),
        (
            {**given(["a"]), "parameters": {"binary_data_size": 3}},
            "has `data` and `binary_data_size`",
        ),
    ],
)
def test_what_is_no_tensor_of_strings_is_told(
    server: ServerProcess, one: dict[str, object], text: str
) -> None:
    reply = server.infer("upper", [one])
    assert reply.status == 400 and text in reply.error, reply.error


@pytest.mark.parametrize("tail", [b"\5\0\0\0ab", b"\1\0\0\0ab", b"\1"])
def test_elements_beyond_their_bytes_are_refused(
    server: ServerProcess, grpc: GrpcClient, tail: bytes
) -> None:
    parameters = {"binary_data_size": len(tail)}
    one = {"name": "text", "shape": [1], "datatype": "BYTES", "parameters": parameters}
    reply = server.post("/v2/models/upper/infer", {"inputs": [one]}, tail)
    assert reply.status == 400
    assert "send for each element its length in 4 bytes, and its bytes" in reply.error
    message = inference.ModelInferRequest(model_name="upper", raw_input_contents=[tail])
    message.inputs.add(name="text", datatype="BYTES", shape=[1])
    with pytest.raises(Exception, match="send for each element its length in 4 bytes"):
        grpc.send("ModelInfer", message)


def test_bytes_that_are_no_text_are_for_binary_answers(server: ServerProcess) -> None:
    sizes = tensor("size", np.zeros(1, np.int64), "INT64")
    reply = server.infer("raw", [sizes])
    assert reply.status == 400 and "use its binary form (binary_data)" in reply.error
    wish = {"name": "raw", "parameters": {"binary_data": True}}
    assert server.infer("raw", [sizes], outputs=[wish]).body.endswith(packed([b"\xff"]))


def test_a_body_without_a_document_is_no_string(server: ServerProcess) -> None:
    reply = server.ask(
        "POST", "/v2/models/upper/infer", b"abc", {"Inference-Header-Content-Length": "0"}
    )
    assert reply.status == 400 and "no strings, and this one has BYTES" in reply.error
