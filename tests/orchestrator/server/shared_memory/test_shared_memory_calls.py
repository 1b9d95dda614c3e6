"""Shared memory of clients over REST and gRPC, from `rankmesh serve`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import PATIENCE
from served_grpc import connected, infer_message
from served_http import Reply, ServerProcess, binary, serving, tensor
from served_models import doubler

PREFIX = f"client-memory-served{os.getpid()}-"
PYTHON = os.environ.get("RANKMESH_TRITONCLIENT_PYTHON") or sys.executable
PROGRAM = Path(__file__).parents[3] / "support" / "triton_shared_memory.py"
X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.full(1, 0.5, np.float32)
Y = (2 * X + 0.5).astype(np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("models")
    named = model([node("Identity", "model", "y")], {"model": ["n"]}, {"y": ["n"]})
    save(named, str(folder / "named.onnx"))
    settings = folder / "serve.yaml"
    paths = [doubler(folder), folder / "named.onnx"]
    settings.write_text("models:\n" + "".join(f"  - path: {path}\n" for path in paths))
    with serving(settings, "--grpc-port", "0", "--shared-memory-prefix", f"/{PREFIX}") as made:
        yield made


@pytest.fixture
def region(server: ServerProcess) -> Iterator[Path]:
    """Memory of 100 bytes with X at byte 4, registered as `r`."""
    path = Path("/dev/shm") / f"{PREFIX}r"
    path.write_bytes(bytes(4) + X.tobytes() + bytes(64))
    wish = {"key": f"/{PREFIX}r", "offset": 0, "byte_size": 100}
    assert server.post("/v2/systemsharedmemory/region/r/register", wish).status == 200
    yield path
    path.unlink()
    assert server.ask("POST", "/v2/systemsharedmemory/unregister").status == 200


def shared(name: str, region: str = "r", offset: int = 4, size: int = X.nbytes) -> dict[str, Any]:
    """A tensor in a region."""
    parameters = {"shared_memory_region": region, "shared_memory_byte_size": size}
    return {"name": name, "parameters": {**parameters, "shared_memory_offset": offset}}


def given(**place: Any) -> dict[str, Any]:
    return {**shared("x", **place), "shape": [2, 4], "datatype": "FP32"}


def test_the_extension_is_told_and_regions_are_listed(server: ServerProcess, region: Path) -> None:
    assert "system_shared_memory" in server.get("/v2").json["extensions"]
    row = {"name": "r", "key": f"/{PREFIX}r", "offset": 0, "byte_size": 100}
    assert server.get("/v2/systemsharedmemory/status").json == [row]
    assert server.get("/v2/systemsharedmemory/region/r/status").json == [row]
    assert server.get("/v2/systemsharedmemory/region/s/status").status == 404
    assert server.get("/v2/cudasharedmemory/status").json == []
    assert server.get("/v2/cudasharedmemory/region/r/status").status == 404
    with connected(server.grpc_port) as client:
        assert client.call("SystemSharedMemoryStatus").regions["r"].byte_size == 100
        assert "system_shared_memory" in client.call("ServerMetadata").extensions
        with pytest.raises(grpc.RpcError, match="no region 'r' of CUDA memory"):
            client.call("CudaSharedMemoryStatus", name="r")


@pytest.mark.parametrize("in_json", [False, True])
def test_rest_reads_inputs_and_writes_outputs(
    server: ServerProcess, region: Path, in_json: bool
) -> None:
    bias = tensor("bias", BIAS) if in_json else binary("bias", BIAS)
    document = {"inputs": [given(), bias], "outputs": [shared("y", offset=40), {"name": "s"}]}
    reply = server.post("/v2/models/doubler/infer", document, b"" if in_json else BIAS.tobytes())
    assert reply.status == 200, reply.error
    y, s = reply.json["outputs"]
    assert y == {**shared("y", offset=40), "shape": [2, 4], "datatype": "FP32"}
    assert s["data"] == [0.5]
    assert region.read_bytes()[40:72] == Y.tobytes()


@pytest.mark.parametrize("in_json", [False, True])
def test_a_name_may_stand_for_other_memory_later(
    server: ServerProcess, region: Path, in_json: bool
) -> None:
    bias = tensor("bias", BIAS) if in_json else binary("bias", BIAS)

    def ask() -> Reply:
        tail = b"" if in_json else BIAS.tobytes()
        return server.post("/v2/models/doubler/infer", {"inputs": [given(), bias]}, tail)

    first, again = (ask().json["outputs"][0]["data"] for _ in range(2))
    assert server.ask("POST", "/v2/systemsharedmemory/region/r/unregister").status == 200
    assert ask().status == 404
    wish = {"key": f"/{PREFIX}r", "offset": 4, "byte_size": 96}
    assert server.post("/v2/systemsharedmemory/region/r/register", wish).status == 200
    second = ask().json["outputs"][0]["data"]
    assert first == again == Y.reshape(-1).tolist() and second[:7] == first[1:]


def test_an_input_in_shared_memory_may_have_any_name(server: ServerProcess, region: Path) -> None:
    one = {**shared("model"), "shape": [8], "datatype": "FP32"}
    (y,) = server.infer("named", [one]).json["outputs"]
    assert y["data"] == X.reshape(-1).tolist()


@pytest.mark.parametrize("typed", [False, True])
def test_grpc_reads_inputs_and_writes_outputs(
    server: ServerProcess, region: Path, typed: bool
) -> None:
    message = infer_message("doubler", {} if typed else {"bias": BIAS})
    if typed:
        message.inputs.add(name="bias", datatype="FP32", shape=[1]).contents.fp32_contents[:] = BIAS
    place(message.inputs.add(name="x", datatype="FP32", shape=[2, 4]), 4)
    place(message.outputs.add(name="y"), 40)
    message.outputs.add(name="s")
    with connected(server.grpc_port) as client:
        reply = client.send("ModelInfer", message)
    assert [one.name for one in reply.outputs] == ["y", "s"]
    assert reply.outputs[0].parameters["shared_memory_byte_size"].int64_param == 32
    assert list(reply.raw_output_contents) == [b"", BIAS.tobytes()]
    assert region.read_bytes()[40:72] == Y.tobytes()


def place(one: Any, offset: int) -> None:
    one.parameters["shared_memory_region"].string_param = "r"
    one.parameters["shared_memory_byte_size"].int64_param = X.nbytes
    one.parameters["shared_memory_offset"].int64_param = offset


@pytest.mark.parametrize(
    ("one", "wish", "status", "text"),
    [
        (given(region="q"), {"name": "y"}, 404, "no region 'q'"),
        (given(offset=80), {"name": "y"}, 400, "beyond the end of the region 'r'"),
        (given(size=16), {"name": "y"}, 400, "shared_memory_byte_size 16, expected 32"),
        ({**given(), "data": [1]}, {"name": "y"}, 400, "in shared memory, and in the body"),
        (given(), shared("y", size=31), 400, "has 32 bytes, and its shared_memory_byte_size is 31"),
        (given(), shared("y", offset=90), 400, "beyond the end of the region 'r'"),
        (given(), shared("z"), 400, "has no output 'z'"),
    ],
)
def test_wrong_places_are_told(
    server: ServerProcess, region: Path, one: Any, wish: Any, status: int, text: str
) -> None:
    reply = server.infer("doubler", [one, tensor("bias", BIAS)], outputs=[wish])
    assert (reply.status, text in reply.error) == (status, True), reply.error
    assert "100" not in reply.error


def test_tensors_of_several_large_pages_go_from_region_to_region(server: ServerProcess) -> None:
    x = np.arange(4_000_004, dtype=np.float32).reshape(-1, 4)
    path = Path("/dev/shm") / f"{PREFIX}large"
    path.write_bytes(x.tobytes() + bytes(8 + x.nbytes))
    wish = {"key": f"/{PREFIX}large", "offset": 0, "byte_size": 2 * x.nbytes + 8}
    assert server.post("/v2/systemsharedmemory/region/large/register", wish).status == 200
    try:
        asked = {**shared("x", "large", 0, x.nbytes), "shape": [*x.shape], "datatype": "FP32"}
        given_y = shared("y", "large", x.nbytes + 4, x.nbytes)
        placed = {**shared("bias", "large", x.nbytes, 4), "shape": [1], "datatype": "FP32"}
        for bias in (tensor("bias", BIAS), placed, placed):
            wanted = 2 * x.reshape(-1) + (0 if bias is placed else 0.5)
            reply = server.infer("doubler", [asked, bias], outputs=[given_y])
            assert reply.status == 200, reply.error
            found = np.frombuffer(path.read_bytes(), np.float32)
            np.testing.assert_array_equal(found[: x.size], x.reshape(-1))
            np.testing.assert_array_equal(found[x.size + 1 : -1], wanted)
            assert found[x.size] == found[-1] == 0
    finally:
        path.unlink()
        server.post("/v2/systemsharedmemory/region/large/unregister", {})


@pytest.fixture
def in_regions(region: Path) -> dict[str, Any]:
    """The document of a request to the doubler whose tensors are all in the region `r`."""
    bias = {**shared("bias", offset=0, size=4), "shape": [1], "datatype": "FP32"}
    return {"inputs": [given(), bias], "outputs": [shared("s", offset=36, size=4), wish(40)]}


def wish(offset: int, size: int = Y.nbytes) -> dict[str, Any]:
    return shared("y", offset=offset, size=size)


def test_repeated_requests_have_the_tensors_of_their_time(
    server: ServerProcess, region: Path, in_regions: dict[str, Any]
) -> None:
    for step in range(4):  # from the second one on the document is known
        region.write_bytes(BIAS.tobytes() + (X + step).tobytes() + bytes(64))
        reply = server.post("/v2/models/doubler/infer", in_regions)
        assert reply.status == 200, reply.error
        s, y = reply.json["outputs"]
        assert s == {**shared("s", offset=36, size=4), "shape": [1], "datatype": "FP32"}
        assert y == {**wish(40), "shape": [2, 4], "datatype": "FP32"}
        found = region.read_bytes()
        assert found[36:40] == BIAS.tobytes()
        assert found[40:72] == (Y + 2 * np.float32(step)).tobytes()


def test_repeated_requests_see_that_their_region_has_changed(
    server: ServerProcess, region: Path, in_regions: dict[str, Any]
) -> None:
    def ask() -> Reply:
        return server.post("/v2/models/doubler/infer", in_regions)

    assert [ask().status for _ in range(3)] == [200] * 3
    before = region.read_bytes()
    os.truncate(region, 60)  # the inputs are there, and not all of the output
    short = ask()
    assert (short.status, "ends before the region does" in short.error) == (400, True)
    region.write_bytes(before)
    assert ask().status == 200
    assert server.ask("POST", "/v2/systemsharedmemory/region/r/unregister").status == 200
    assert ask().status == 404
    place = {"key": f"/{PREFIX}r", "offset": 8, "byte_size": 92}
    assert server.post("/v2/systemsharedmemory/region/r/register", place).status == 200
    assert [ask().status for _ in range(2)] == [200] * 2
    found = region.read_bytes()
    shifted = np.frombuffer(found[12:44], np.float32)
    np.testing.assert_array_equal(
        np.frombuffer(found[48:80], np.float32), 2 * shifted + np.frombuffer(found[8:12], "f4")
    )


def test_repeated_requests_are_told_that_an_output_has_no_room(
    server: ServerProcess, region: Path, in_regions: dict[str, Any]
) -> None:
    in_regions["outputs"][1] = wish(40, 31)
    for _ in range(3):
        reply = server.post("/v2/models/doubler/infer", in_regions)
        assert (reply.status, "and its shared_memory_byte_size is 31" in reply.error) == (400, True)


def test_memory_that_is_shortened_fails_its_requests_alone(
    server: ServerProcess, region: Path
) -> None:
    os.truncate(region, 10)
    reply = server.infer("doubler", [given(), tensor("bias", BIAS)])
    assert (reply.status, "ends before the region does" in reply.error) == (400, True)
    wish = [shared("y", offset=40)]
    both = [tensor("x", X), tensor("bias", BIAS)]
    assert server.infer("doubler", both, outputs=wish).status == 400
    assert server.infer("doubler", both).status == 200
    assert region.stat().st_size == 10


@pytest.mark.parametrize(
    ("path", "wish", "status", "text"),
    [
        ("system", {"key": "/other", "byte_size": 4}, 400, "none that clients may use"),
        ("system", {"key": f"/{PREFIX}none", "byte_size": 4}, 400, "no shared memory with this"),
        ("system", {"key": f"/{PREFIX}r", "byte_size": 4}, 409, "registered already"),
        ("system", {"key": f"/{PREFIX}r"}, 400, "missing required field `byte_size`"),
        ("cuda", {"raw_handle": {"b64": "AA=="}, "byte_size": 4}, 400, "CUDA shared memory is not"),
    ],
)
def test_what_cannot_be_registered_is_told(
    server: ServerProcess, region: Path, path: str, wish: Any, status: int, text: str
) -> None:
    name = "r" if status == 409 else "q"
    reply = server.post(f"/v2/{path}sharedmemory/region/{name}/register", wish)
    assert (reply.status, text in reply.error) == (status, True), reply.error
    if path == "cuda":
        with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError, match=text):
            client.call("CudaSharedMemoryRegister", name="c")


@pytest.mark.skipif(
    PYTHON == sys.executable and find_spec("tritonclient") is None,
    reason="no tritonclient: name a Python that has it with RANKMESH_TRITONCLIENT_PYTHON",
)
def test_tritonclients_shared_memory_works_unchanged(server: ServerProcess) -> None:
    command = [PYTHON, str(PROGRAM), PREFIX, str(server.port), str(server.grpc_port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("answered\n", 0), done.stderr
