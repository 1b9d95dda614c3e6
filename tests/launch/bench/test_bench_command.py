"""`rankmesh bench` with a real server, over each of its protocols, and with models of its own."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from certificates import Authority, Signed
from onnx import save
from onnx_models import model, node
from served_http import ServerProcess, serving
from served_models import SAMPLE, doubler
from short_bench import SHAPE, bench

from rankmesh.comm.errors import InputError, UsageError
from rankmesh.launch.bench.targets.server_address import TlsOptions

TOKEN = "token-of-the-bench-tests"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bench")
    (made / "token").write_text(TOKEN)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    tokens = folder / "tokens.yaml"
    tokens.touch(0o600)
    tokens.write_text(f"tokens: [{{name: bench, token: {TOKEN}, roles: [infer, metrics]}}]")
    with serving(doubler(folder), "--tokens", str(tokens), "--grpc-port", "0") as made:
        yield made


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def client(authority: Authority) -> Signed:
    return authority.sign("client")


@pytest.fixture(scope="module")
def secure_server(folder: Path, authority: Authority, client: Signed) -> Iterator[ServerProcess]:
    """Two ranks with a collective, behind mutual TLS."""
    signed = authority.sign("server")
    files = ["--tls-certificate", signed.certificate, "--tls-key", signed.key]
    files += ["--tls-client-ca", authority.certificate]
    trust = ssl.create_default_context(cafile=authority.certificate)
    trust.load_cert_chain(client.certificate, client.key)
    with serving(SAMPLE, *map(str, files), "--grpc-port", "0", trust=trust) as made:
        yield made


def url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.mark.parametrize("tensors", ["binary", "json"])
def test_a_closed_loop_over_rest(
    server: ServerProcess, folder: Path, tensors: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = bench(folder, url(server), "1,3", tensors=tensors)
    assert status == 0 and found["complete"] and found["protocol"] == f"REST, {tensors}"
    assert [one["clients"] for one in found["levels"]] == [1, 3]
    for one in found["levels"]:
        assert one["answered"] > 0 and one["throughput"] > 0 and not one["failed"]
        assert 0 < one["p50"] <= one["p90"] <= one["p99"] <= one["longest"] and not one["wrong"]
        assert 0 <= one["shares"]["queue"] <= 1 and 0 < one["shares"]["run"] <= 1
        assert one["shares"]["collectives"] == 0.0 and one["idle"] is not None
    setup = found["setup"]
    assert (setup["replicas"], setup["ranks"], setup["batchable"]) == (1, 1, False)
    printed = capsys.readouterr().out
    assert "1 client " in printed and "3 clients" in printed
    assert "<svg" in (folder / "report.svg").read_text()


def test_an_open_loop_over_grpc(server: ServerProcess, folder: Path) -> None:
    address = f"127.0.0.1:{server.grpc_port}"
    status, found = bench(folder, address, rate="40,80", grpc=True)
    assert status == 0 and found["protocol"] == "gRPC"
    assert [one["rate"] for one in found["levels"]] == [40, 80]
    for one in found["levels"]:
        assert one["answered"] > 0 and not one["failed"] and one["lag"] is not None
        assert one["shares"]["collectives"] is None


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_tls_and_the_share_of_collectives(
    secure_server: ServerProcess, folder: Path, authority: Authority, client: Signed, scheme: str
) -> None:
    port = secure_server.grpc_port if scheme == "grpcs" else secure_server.port
    target = f"{scheme}://localhost:{port}"
    tls = TlsOptions(str(authority.certificate), str(client.certificate), str(client.key))
    given = {"token_file": None, "shapes": ()}
    status, found = bench(folder, target, "2", tls=tls, **given)
    (one,) = found["levels"]
    assert status == 0 and one["answered"] > 0 and not one["failed"] and not one["wrong"]
    if scheme == "https":
        assert found["setup"]["ranks"] == 2 and 0 < one["shares"]["collectives"] <= 1
        assert one["processors"] is not None
    for files, told in (
        (TlsOptions(), "certificate verify failed" if scheme == "https" else "connect"),
        (TlsOptions(ca=str(client.key)), "files of TLS cannot be used"),
    ):
        with pytest.raises(UsageError, match=told):
            bench(folder, target, "1", tls=files, **given)
    with pytest.raises(UsageError, match="files of TLS are for https:// and grpcs://"):
        bench(folder, f"http://localhost:{port}", "1", tls=tls, **given)


def test_refusals_are_told(server: ServerProcess, folder: Path) -> None:
    wrong = folder / "wrong"
    wrong.write_text("a token that there is not")
    for options, told in (
        ({"token_file": str(wrong)}, "HTTP 401: this token is not known|this token is not known"),
        ({"model": "other"}, "there is no model 'other'"),
        ({"shapes": ()}, "--shape x:1,4"),
        ({"tensors": "text"}, "expected binary or json"),
        ({"replicas": 2}, "--replicas is for a model"),
    ):
        with pytest.raises(UsageError, match=told):
            bench(folder, url(server), "1", **options)
    with pytest.raises(UsageError, match="refused"):
        bench(folder, "127.0.0.1:1", "1")


def test_inputs_and_outputs_of_files(server: ServerProcess, folder: Path) -> None:
    x, bias = np.ones((2, 4), np.float32), np.full(1, 3, np.float32)
    right, wrong = str(folder / "right.npz"), str(folder / "wrong.npz")
    np.savez(right, x=x, bias=bias, y=2 * x + bias)
    np.savez(wrong, y=x)
    status, found = bench(folder, url(server), "1", inputs=right, expect=right, shapes=())
    assert status == 0 and found["levels"][0]["answered"] > 0
    with pytest.raises(InputError, match="--expect .*wrong.npz: the first answer differs"):
        bench(folder, url(server), "1", inputs=right, expect=wrong, shapes=())


def test_a_model_of_its_own_whose_answers_change(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = [node("RandomUniformLike", "x", "r"), node("Add", "x r", "y")]
    path = str(folder / "noise.onnx")
    save(model(noise, {"x": [2]}, {"y": [2]}), path)
    status, found = bench(folder, path, "2", shapes=(), replicas=2)
    (one,) = found["levels"]
    assert status == 1 and one["wrong"] == one["answered"] > 0
    assert "wrong: the output 'y' relative error" in capsys.readouterr().out
    assert found["setup"]["replicas"] == 2 and one["processors"] > 0 and found["advice"]
    assert found["protocol"] == "in process"


def test_the_command_prints_what_there_is_after_int(server: ServerProcess, folder: Path) -> None:
    path = folder / "cut.json"
    command = [sys.executable, "-P", "-m", "rankmesh", "bench", url(server), "--clients", "1,2"]
    command += ["--shape", SHAPE, "--token-file", str(folder / "token"), "--json", str(path)]
    command += ["--duration", "0.2", "--warm-up", "0"]
    with subprocess.Popen([*command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 128 + signal.SIGINT
    assert "req/s" in lines[0] and "1 client" in lines[1] and "At 1 client" in rest
    report = json.loads(path.read_text())
    assert not report["complete"] and report["levels"][0]["clients"] == 1
