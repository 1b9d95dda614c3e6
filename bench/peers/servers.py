"""Servers of serving_peers.py: how each is started with one model, and its processor time."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

HERE = Path(__file__).parent
PREFIX = "/peers-"
"""How the keys of shared memory begin."""

NAME = "peers-"
"""How the name begins that local programs connect to; the port follows."""

_START = 90.0
_END = 10.0
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Peers:
    """Where the peers are: interpreters of environments that have them, and for Triton the folder
    with nvidia-pytriton, onnxruntime and numpy < 2.
    """

    mosec: str | None = None
    mlserver: str | None = None
    litserve: str | None = None
    triton: Path | None = None


@dataclass(frozen=True)
class Served:
    """What a server answers with: a model, by so many workers of one thread each; the ports; and a
    folder for its files.
    """

    model: Path
    workers: int
    port: int
    grpc_port: int
    folder: Path


@dataclass(frozen=True)
class Start:
    """A command, its current folder, variables that it has besides ours, and the path that answers
    200 when it is ready; without one, the port is open then.
    """

    command: list[str]
    folder: Path
    ready: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: psutil.Process
    served: Served

    def seconds(self) -> tuple[float, float]:
        """Processor time so far: of all its processes, and of those that are Rankmesh's ranks."""
        processes = [self.process, *self.process.children(recursive=True)]
        ranks = [one for one in processes if any("rank=" in part for part in one.cmdline())]
        return _seconds(processes), _seconds(ranks)


def _seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def bare(served: Served, peers: Peers) -> Start:
    script = [sys.executable, str(HERE / "socket_load.py"), "serve"]
    values = str(served.model.with_suffix(".npz"))
    return Start([*script, values, str(served.port)], served.folder)


def rankmesh(served: Served, peers: Peers) -> Start:
    command = [sys.executable, "-P", "-m", "rankmesh", "serve", str(served.model)]
    ports = ["--port", str(served.port), "--grpc-port", str(served.grpc_port)]
    workers = ["--replicas", str(served.workers), "--threads", "1"]
    local = ["--shared-memory-prefix", PREFIX, "--name", f"{NAME}{served.port}"]
    return Start([*command, *ports, *workers, *local], served.folder, "/v2/health/ready")


def mosec(served: Served, peers: Peers) -> Start:
    assert peers.mosec
    script = [peers.mosec, str(HERE / "mosec_app.py")]
    address = ["--address", "127.0.0.1", "--port", str(served.port), "--timeout", "60000"]
    variables = {"MODEL": str(served.model), "WORKERS": str(served.workers)}
    return Start([*script, *address], served.folder, "/metrics", variables)


def litserve(served: Served, peers: Peers) -> Start:
    assert peers.litserve
    script = [peers.litserve, str(HERE / "litserve_app.py"), str(served.model)]
    return Start([*script, str(served.workers), str(served.port)], served.folder, "/health")


def mlserver(served: Served, peers: Peers) -> Start:
    assert peers.mlserver
    name = served.model.stem
    ports = f'"http_port": {served.port}, "grpc_port": {served.grpc_port}'
    ports += f', "metrics_port": {free_port()}'
    (served.folder / "settings.json").write_text(
        f'{{"host": "127.0.0.1", {ports}, "parallel_workers": {served.workers}, "debug": false}}'
    )
    (served.folder / "model-settings.json").write_text(
        f'{{"name": "{name}", "implementation": "mlserver_app.Model",'
        f' "parameters": {{"uri": "{served.model}"}}}}'
    )
    program = str(Path(peers.mlserver).with_name("mlserver"))
    command = [program, "start", str(served.folder)]
    return Start(command, served.folder, f"/v2/models/{name}/ready", {"PYTHONPATH": str(HERE)})


def triton(served: Served, peers: Peers) -> Start:
    """Triton's own server of the wheel nvidia-pytriton, with its python backend. Its stub imports
    numpy from the current folder.
    """
    assert peers.triton
    parts = peers.triton.resolve() / "pytriton" / "tritonserver"
    backends = served.folder / "backends"
    shutil.copytree(parts / "backends", backends)
    stub = parts / "python_backend_stubs" / _PYTHON / "triton_python_backend_stub"
    shutil.copy(stub, backends / "python")
    repository = served.folder / "repository"
    _write_triton_model(repository / served.model.stem, served)
    libraries = [str(peers.triton.resolve() / "nvidia_pytriton.libs")]
    libraries += [str(sysconfig.get_config_var("LIBDIR"))]
    command = [
        *(str(parts / "bin" / "tritonserver"), f"--model-repository={repository}"),
        *(f"--backend-directory={backends}", "--allow-metrics=false"),
        *("--http-address=127.0.0.1", f"--http-port={served.port}"),
        *("--grpc-address=127.0.0.1", f"--grpc-port={served.grpc_port}"),
    ]
    variables = {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    return Start(command, peers.triton.resolve(), "/v2/health/ready", variables)


def _write_triton_model(folder: Path, served: Served) -> None:
    import onnx

    (folder / "1").mkdir(parents=True)
    shutil.copy(HERE / "triton_app.py", folder / "1" / "model.py")
    shutil.copy(HERE / "runnable.py", folder / "1")
    graph = onnx.load(served.model, load_external_data=False).graph
    x, y = (_dims(slots[0]) for slots in (graph.input, graph.output))
    (folder / "config.pbtxt").write_text(
        f'backend: "python"\nmax_batch_size: 0\n'
        f'input {{ name: "x" data_type: TYPE_FP32 dims: {x} }}\n'
        f'output {{ name: "y" data_type: TYPE_FP32 dims: {y} }}\n'
        f"instance_group {{ count: {served.workers} kind: KIND_CPU }}\n"
        f'parameters {{ key: "file" value: {{ string_value: "{served.model}" }} }}\n'
    )


def _dims(slot: object) -> list[int]:
    return [one.dim_value for one in slot.type.tensor_type.shape.dim]  # type: ignore[attr-defined]


STARTS: dict[str, Callable[[Served, Peers], Start]] = {
    one.__name__: one for one in (bare, rankmesh, mosec, litserve, mlserver, triton)
}


@contextmanager
def started(names: list[str], model: Path, workers: int, peers: Peers) -> Iterator[list[Server]]:
    """Servers of these names, each of which `STARTS` has, started beside each other."""
    with tempfile.TemporaryDirectory() as temporary:
        running: list[tuple[Server, Start, subprocess.Popen[bytes]]] = []
        try:
            for number, name in enumerate(names):
                folder = Path(temporary) / f"{number}-{name}"
                folder.mkdir()
                served = Served(model, workers, free_port(), free_port(), folder)
                running.append(_start(STARTS[name](served, peers), served))
            for server, start, process in running:
                _wait(server, start, process)
            yield [server for server, _, _ in running]
        finally:
            for _, _, process in running:
                _end(process)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _start(start: Start, served: Served) -> tuple[Server, Start, subprocess.Popen[bytes]]:
    with (served.folder / "log.txt").open("wb") as log:
        variables = {**os.environ, **start.variables}
        process = subprocess.Popen(
            start.command, cwd=start.folder, env=variables, stdout=log, stderr=log
        )
    return Server(psutil.Process(process.pid), served), start, process


def _wait(server: Server, start: Start, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START
    while not _ready(server.served.port, start.ready):
        if process.poll() is not None or time.monotonic() > end:
            log = (server.served.folder / "log.txt").read_text(errors="replace")
            raise RuntimeError(f"{start.command} is not ready: {log[-3000:]}")
        time.sleep(0.2)


def _ready(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            if not path:
                return True
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return list(psutil.Process(process.pid).children(recursive=True))


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM to the server, and KILL to what it leaves behind."""
    children = [] if process.poll() is not None else _children(process)
    process.terminate()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(children, timeout=2)
    for one in left:
        one.kill()
