"""Management through the server: models are loaded, unloaded, replaced, and given new weights."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import wait_until
from served_grpc import GrpcClient, connected, infer_message
from served_http import Reply, ServerProcess, binary, serving, tensor
from served_models import weighed

from rankmesh.orchestrator.server.grpc.protocol import inference

X = np.arange(4, dtype=np.float32)


def times(folder: Path, factor: float, name: str) -> Path:
    """y = factor * x."""
    factors = {"factor": np.full(1, factor, np.float32)}
    made = model([node("Mul", "x factor", "y")], {"x": ["n"]}, {"y": ["n"]}, constants=factors)
    new = folder / f"{name}.new"
    save(made, str(new))
    os.replace(new, folder / f"{name}.onnx")  # ranks may have the old one mapped
    return folder / f"{name}.onnx"


def configure(folder: Path, *models: str) -> Path:
    """A YAML file of these entries."""
    path = folder / "serve.yaml"
    path.write_text("models:\n" + "".join(f"  - {{{one}}}\n" for one in models))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("managed")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    times(folder, 2, "one")
    times(folder, 3, "two")
    weighed(folder)
    (folder / "weights").mkdir()
    config = configure(folder, "path: one.onnx", "path: two.onnx", "path: 'weighed{rank}.onnx'")
    options = ("--management", "--weights-folder", str(folder / "weights"), "--grpc-port", "0")
    with serving(config, *options) as made:
        yield made


def asked(server: ServerProcess, name: str, version: str = "") -> tuple[Any, str]:
    """What a model makes of 1, and the version that answers."""
    place = f"{name}/versions/{version}" if version else name
    x = np.ones(4, np.float32)
    document = {"inputs": [binary("x", x)], "parameters": {"binary_data_output": True}}
    reply = server.post(f"/v2/models/{place}/infer", document, x.tobytes())
    assert reply.status == 200, reply.body
    size = int(reply.headers["inference-header-content-length"])
    return reply.array()[0], json.loads(reply.body[:size])["model_version"]


def index(server: ServerProcess) -> dict[tuple[str, str], tuple[str, str]]:
    found = server.post("/v2/repository/index", {}).json
    return {(one["name"], one["version"]): (one["state"], one["reason"]) for one in found}


@contextmanager
def lines_of(server: ServerProcess) -> Iterator[list[str]]:
    """What the server writes on standard error, line by line."""
    lines: list[str] = []
    stderr = server.process.stderr
    assert stderr is not None
    reader = threading.Thread(target=lambda: lines.extend(stderr), daemon=True)
    reader.start()
    yield lines
    reader.join()


def change(server: ServerProcess, name: str, what: str, document: object = None) -> Any:
    return server.post(f"/v2/repository/models/{name}/{what}", document or {})


def test_one_of_two_models_goes_and_comes_back_under_requests(server: ServerProcess) -> None:
    wrong: list[object] = []
    end = threading.Event()

    def ask() -> None:
        while not end.is_set():
            if asked(server, "two")[0] != 3:
                wrong.append(asked(server, "two"))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        before = asked(server, "one")[1]
        assert change(server, "one", "unload").status == 200
        assert index(server)["one", ""] == ("UNAVAILABLE", "unloaded")
        gone = server.infer("one", [tensor("x", X)])
        assert (gone.status, gone.error[:22]) == (404, "there is no model 'one")
        assert server.get("/v2/models/one/ready").status == 404
        assert server.get("/v2/health/ready").status == 200
        assert change(server, "one", "unload").status == 200
        assert change(server, "one", "load").status == 200
        after = str(int(before) + 1)
        assert asked(server, "one") == (2, after) == asked(server, "one", after)
        assert index(server)["one", after] == ("READY", "")
        assert server.get(f"/v2/models/one/versions/{after}/ready").status == 200
        assert server.get(f"/v2/models/one/versions/{before}/ready").status == 404
        assert server.get(f"/v2/models/one/versions/{after}").json["versions"] == [after]
        (told,) = server.get(f"/v2/models/one/versions/{after}/stats").json["model_stats"]
        assert (told["version"], told["inference_count"]) == (after, 2)
    finally:
        end.set()
        thread.join()
    assert not wrong


def test_a_loaded_model_is_replaced_and_a_broken_one_changes_nothing(
    server: ServerProcess, folder: Path
) -> None:
    version = asked(server, "two")[1]
    times(folder, 5, "two")
    assert change(server, "two", "load").status == 200
    newer = str(int(version) + 1)
    assert asked(server, "two") == (5, newer)
    (folder / "two.onnx").rename(folder / "kept.onnx")
    (folder / "two.onnx").write_bytes(b"no model")
    reply = change(server, "two", "load")
    assert reply.status == 400 and "two: cannot be loaded, and nothing has changed" in reply.error
    assert str(folder) not in reply.error
    assert asked(server, "two") == (5, newer)
    states = index(server)
    assert states["two", newer] == ("READY", "")
    assert states["two", ""][0] == "UNAVAILABLE" and "two.onnx" in states["two", ""][1]
    times(folder, 3, "two")
    assert change(server, "two", "load").status == 200
    assert asked(server, "two")[0] == 3 and ("two", "") not in index(server)


def test_only_models_of_the_configuration_are_loaded(server: ServerProcess) -> None:
    unknown = change(server, "three", "load")
    assert (unknown.status, unknown.error[:36]) == (404, "the configuration has no model 'thre")
    for key in ("config", "file:1/model.onnx"):
        refused = change(server, "one", "load", {"parameters": {key: "{}"}})
        assert (
            refused.status == 400 and f"got the parameter '{key}', expected none" in refused.error
        )
    assert server.get("/v2/repository/models/one/load").status == 405
    assert change(server, "one", "rename").status == 404


def test_grpc_manages_models(server: ServerProcess) -> None:
    with connected(server.grpc_port) as client:
        client.send(
            "RepositoryModelUnload", inference.RepositoryModelUnloadRequest(model_name="one")
        )
        found = client.send("RepositoryIndex", inference.RepositoryIndexRequest(ready=True))
        assert [one.name for one in found.models] == ["two", "weighed"]
        wish = inference.RepositoryModelLoadRequest(model_name="one")
        client.send("RepositoryModelLoad", wish)
        found = client.send("RepositoryIndex", inference.RepositoryIndexRequest(ready=True))
        version = found.models[0].version
        ready = inference.ModelReadyRequest(name="one", version=version)
        assert client.send("ModelReady", ready).ready
        stats = client.send("ModelStatistics", inference.ModelStatisticsRequest(name="one"))
        assert [one.version for one in stats.model_stats] == [version]
        wish.parameters["config"].string_param = "{}"
        assert refusal(client, "Load", wish)[0] == grpc.StatusCode.INVALID_ARGUMENT
        unknown = inference.RepositoryModelLoadRequest(model_name="three")
        assert refusal(client, "Load", unknown)[0] == grpc.StatusCode.NOT_FOUND


def test_a_body_on_its_way_goes_to_the_version_that_there_is_when_it_has_come(
    server: ServerProcess, folder: Path
) -> None:
    x = np.ones(20_000, np.float32)
    wish = {"inputs": [binary("x", x)], "parameters": {"binary_data_output": True}}
    document = json.dumps(wish).encode()
    body = document + x.tobytes()
    headers = {"Inference-Header-Content-Length": str(len(document))}
    headers["Content-Length"] = str(len(body))

    def sent(what: str = "") -> Reply:
        def parts() -> Iterator[bytes]:
            yield body[:50_000]
            assert not what or change(server, "two", what).status == 200
            yield body[50_000:]

        parted: Any = parts()
        return server.ask("POST", "/v2/models/two/infer", parted, headers)

    assert [set(sent().array()) for _ in range(2)] == [{3.0}] * 2
    times(folder, 7, "two")
    assert set(sent("load").array()) == {7.0}
    assert sent().status == 200 and sent("unload").status == 404
    times(folder, 3, "two")
    assert change(server, "two", "load").status == 200


def test_requests_of_grpc_that_repeat_go_to_the_version_that_there_is(
    server: ServerProcess, folder: Path
) -> None:
    with connected(server.grpc_port) as client:
        message = infer_message("two", {"x": np.ones(4, np.float32)})

        def asked() -> tuple[float, str]:
            answer = client.send("ModelInfer", message)
            return np.frombuffer(answer.raw_output_contents[0], np.float32)[0], answer.model_version

        before = {asked() for _ in range(3)}
        ((_, version),) = before
        times(folder, 7, "two")
        assert before == {(3, version)} and change(server, "two", "load").status == 200
        assert {asked() for _ in range(3)} == {(7, str(int(version) + 1))}
        assert change(server, "two", "unload").status == 200
        with pytest.raises(grpc.RpcError, match="there is no model 'two'"):
            client.send("ModelInfer", message)
        times(folder, 3, "two")
        assert change(server, "two", "load").status == 200
        assert asked()[0] == 3


def refusal(client: GrpcClient, what: str, message: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        client.send(f"RepositoryModel{what}", message)
    return raised.value.code(), raised.value.details()


def test_weights_come_from_files_of_the_operators_folder(
    server: ServerProcess, folder: Path
) -> None:
    def y() -> float:
        reply = server.infer("weighed", [tensor("x", np.ones((2, 16), np.float32))])
        return reply.json["outputs"][0]["data"][0]

    new = {"straight": np.full((16, 256), 2, np.float32)}
    np.savez(folder / "weights" / "new.npz", **new)
    np.savez(folder / "outside.npz", **new)
    os.symlink(folder / "outside.npz", folder / "weights" / "link.npz")
    assert y() == 17
    for name in ("../outside.npz", str(folder / "outside.npz"), "link.npz", "no.npz", "", "a\0b"):
        refused = change(server, "weighed", "weights", {"file": name})
        assert refused.status == 400 and str(folder) not in refused.error.partition("got")[0], name
        assert "no file" in refused.error or "expected a name" in refused.error
    assert change(server, "weighed", "weights", {"file": "new.npz"}).json == {"weights_version": 1}
    assert y() == 33
    assert change(server, "weighed", "weights/rollback").json == {"weights_version": 0}
    assert y() == 17
    wrong = change(server, "one", "weights", {"file": "new.npz"})
    assert wrong.status == 400 and "straight" in wrong.error


def test_management_is_off_unless_asked_for(tmp_path: Path) -> None:
    config = configure(tmp_path, f"path: {times(tmp_path, 2, 'one').name}")
    with serving(config, "--grpc-port", "0") as server:
        for what in ("load", "unload", "weights", "weights/rollback"):
            reply = change(server, "one", what)
            assert reply.status == 403
            assert reply.error == (
                "the management of models is off: the server's option --management allows it."
            )
        with connected(server.grpc_port) as client:
            code, text = refusal(client, "Load", inference.RepositoryModelLoadRequest())
            assert code == grpc.StatusCode.PERMISSION_DENIED and "is off" in text
            code, text = refusal(client, "Unload", inference.RepositoryModelUnloadRequest())
            assert code == grpc.StatusCode.PERMISSION_DENIED and "is off" in text
        assert asked(server, "one") == (2, "1")


def test_hup_makes_the_models_those_of_the_file(tmp_path: Path) -> None:
    for factor, name in ((2, "same"), (3, "changed"), (4, "gone"), (5, "new")):
        times(tmp_path, factor, name)
    config = configure(tmp_path, "path: same.onnx", "path: changed.onnx", "path: gone.onnx")
    with serving(config) as server, lines_of(server) as log:
        config.write_text("models:\n  - {path: same.onnx, replica: 2}\n")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("not read again, all models go on" in one for one in log), "a word")
        assert any("serve.yaml:2" in one and "replica" in one for one in log)
        times(tmp_path, 7, "changed")
        configure(tmp_path, "path: same.onnx", "path: changed.onnx", "path: new.onnx")
        assert len(index(server)) == 3 and asked(server, "gone") == (4, "1")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: ("new", "1") in index(server), "the new model")
        wait_until(lambda: set(index(server).values()) == {("READY", "")}, "all to be ready")
        wait_until(lambda: ("changed", "1") not in index(server), "the old version to go")
        assert asked(server, "same") == (2, "1")
        assert asked(server, "changed") == (7, "2")
        assert asked(server, "new") == (5, "1")
        assert server.infer("gone", [tensor("x", X)]).status == 404
        (tmp_path / "same.onnx").unlink()
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: index(server).get(("same", ""), "")[:1] == ("UNAVAILABLE",), "a word")
        assert asked(server, "same") == (2, "1")
        assert server.terminate() == 0
