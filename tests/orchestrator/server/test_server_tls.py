"""TLS of a whole server: HTTP and gRPC, clients with certificates, and files that change."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from certificates import Authority, Signed
from processes import PATIENCE, wait_until
from served_grpc import GrpcClient, infer_message
from served_http import ServerProcess, serving
from served_models import echo

X = np.arange(1 << 20, dtype=np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def client(authority: Authority) -> Signed:
    return authority.sign("client")


@pytest.fixture(scope="module")
def server(folder: Path, authority: Authority, client: Signed) -> Iterator[ServerProcess]:
    signed = authority.sign("server")
    files = ["--tls-certificate", signed.certificate, "--tls-key", signed.key]
    files += ["--tls-client-ca", authority.certificate]
    trust = ssl.create_default_context(cafile=authority.certificate)
    trust.load_cert_chain(client.certificate, client.key)
    options = [*map(str, files), "--grpc-port", "0"]
    with serving(echo(folder, X.size), *options, trust=trust) as made:
        yield made


def channel(server: ServerProcess, authority: Authority, client: Signed | None) -> grpc.Channel:
    roots = authority.certificate.read_bytes()
    own = (client.key.read_bytes(), client.certificate.read_bytes()) if client else (None, None)
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    credentials = grpc.ssl_channel_credentials(roots, *own)
    return grpc.secure_channel(f"localhost:{server.grpc_port}", credentials, options)


def test_requests_over_tls(server: ServerProcess, authority: Authority, client: Signed) -> None:
    document = {
        "inputs": [
            {
                "name": "x",
                "shape": [X.size],
                "datatype": "FP32",
                "parameters": {"binary_data_size": X.nbytes},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    reply = server.post("/v2/models/echo/infer", document, X.tobytes())
    np.testing.assert_array_equal(reply.array(), X)
    with channel(server, authority, client) as open_channel:
        answer = GrpcClient(open_channel).send("ModelInfer", infer_message("echo", {"x": X}))
        assert answer.raw_output_contents[0] == X.tobytes()


def test_clients_without_a_certificate_are_refused(
    server: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path, "foreign").sign("stranger")
    for own in (None, foreign):
        trust = ssl.create_default_context(cafile=authority.certificate)
        if own is not None:
            trust.load_cert_chain(own.certificate, own.key)
        with pytest.raises(OSError, match="(?i)certificate|unknown|reset|EOF|closed"):
            ServerProcess(server.process, server.port, trust=trust).get("/v2")
        with channel(server, authority, own) as refused, pytest.raises(grpc.RpcError) as raised:
            GrpcClient(refused).call("ServerLive", 5.0)
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


def test_files_are_read_again_after_hup_and_wrong_ones_are_not_used(
    server: ServerProcess, authority: Authority, client: Signed, folder: Path
) -> None:
    def shown() -> set[str]:
        """The certificates that HTTP and gRPC show."""
        found = set()
        for port in (server.port, server.grpc_port):
            command = ["openssl", "s_client", "-connect", f"localhost:{port}", "-showcerts"]
            command += ["-cert", client.certificate, "-key", client.key, "-alpn", "h2,http/1.1"]
            done = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE)
            begin = done.stdout.index(b"-----BEGIN CERT")
            found.add(done.stdout[begin : done.stdout.index(b"-----END CERT")].strip().decode())
        return found

    (before,) = shown()
    old_key = (folder / "server.key").read_bytes()
    renewed = authority.sign("server")
    new_key = renewed.key.read_bytes()
    renewed.key.write_bytes(old_key)
    server.process.send_signal(signal.SIGHUP)  # while the key is not that of the certificate
    assert server.get("/v2/health/live").status == 200
    assert shown() == {before}
    renewed.key.write_bytes(new_key)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: shown().isdisjoint({before}), "the new certificate")
    assert len(shown()) == 1
    assert server.get("/v2/health/live").status == 200


def test_a_wrong_file_is_told_at_the_start(folder: Path, authority: Authority) -> None:
    first, second = authority.sign("first"), authority.sign("second")
    command = [sys.executable, "-m", "rankmesh", "serve", "missing.onnx", "--port", "0"]
    for files, text in (
        (["--tls-certificate", first.certificate, "--tls-key", second.key], "second.key: is not"),
        (["--tls-key", first.key], "--tls-certificate and --tls-key"),
    ):
        done = subprocess.run(
            [*command, *map(str, files)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 2 and text in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
