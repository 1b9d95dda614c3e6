"""Extras: each alone does what its page promises, and what needs a missing one names it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from hidden_packages import hiding
from mpirun import environment as mpi_variables
from onnx_models import two_layers
from processes import PATIENCE, rankmesh
from served_http import serving
from shards import summing

PACKAGES = {
    "cpu": {"onnxruntime"},
    "gpu": {"cuda", "torch"},
    "torch": {"torch"},
    "mpi": {"mpi4py"},
    "slice": {"highspy"},
    "hf": {"transformers", "onnxscript", "torch"},
    "serve": {"uvloop", "httptools", "prometheus_client", "grpc"},
    "ray": {"ray"},
    "generate": {"tokenizers", "jinja2"},
    "decoders": {"onnxruntime_genai", "transformers", "gguf", "torch"},
}
"""What an extra brings to import, besides what Rankmesh itself needs."""

_OPTIONAL = set().union(*PACKAGES.values()) | {"opentelemetry"}

ASGI = """
import asyncio, sys, rankmesh

async def status(app, path):
    sent = []
    async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message): sent.append(message)
    await app({"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
               "query_string": b"", "headers": [], "root_path": "", "client": None}, receive, send)
    return sent[0]["status"]

with rankmesh.Orchestrator(sys.argv[1]) as orchestrator:
    app = rankmesh.asgi_app(orchestrator)
    paths = "/v2", "/v2/health/ready", "/v2/models/stats", "/v2/openapi.json", "/", "/metrics"
    print(*(asyncio.run(status(app, path)) for path in paths))
"""


def alone(folder: Path, *extras: str) -> dict[str, str]:
    """The variables of processes that have the packages of these extras and of no other."""
    kept = set().union(*(PACKAGES[one] for one in extras))
    return hiding(folder / "site", *(_OPTIONAL - kept))


def program(text: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of Python, run to its end."""
    command = [sys.executable, "-P", "-c", text, *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.pure
def test_each_extra_of_users_is_in_the_table() -> None:
    extras = set(metadata("rankmesh").get_all("Provides-Extra") or ())
    assert set(PACKAGES) == extras - {"test", "bench", "lint", "audit"}


def test_cpu_alone_runs_shards_and_the_asgi_application(tmp_path: Path) -> None:
    done = program(ASGI, summing(tmp_path), **alone(tmp_path, "cpu"))
    assert (done.stdout, done.stderr) == ("200 200 200 200 200 400\n", "")


def test_serve_answers_http_and_grpc_and_has_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in alone(tmp_path, "cpu", "serve").items():
        monkeypatch.setenv(name, value)
    with serving(summing(tmp_path), "--grpc-port", "0") as server:
        assert server.grpc_port and server.get("/metrics").status == 200
        assert server.terminate() == 0


def test_slice_makes_shards_of_an_onnx_file(tmp_path: Path) -> None:
    variables = alone(tmp_path, "cpu", "slice")
    done = rankmesh(
        "slice", two_layers(tmp_path), "--ranks", "2", "-o", tmp_path / "shards", **variables
    )
    assert (done.returncode, done.stderr) == (0, "") and "greedy" not in done.stdout


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_torch_runs_shards_without_onnxruntime(tmp_path: Path) -> None:
    done = rankmesh("run", summing(tmp_path), "--device", "cpu", **alone(tmp_path, "torch"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_mpi_starts_the_ranks_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("from mpi4py import MPI\nprint('of', MPI.COMM_WORLD.size)\n")
    variables = mpi_variables() | alone(tmp_path, "cpu", "mpi")
    done = rankmesh("launch", "--launcher", "mpirun", "--ranks", "2", script, **variables)
    assert (done.returncode, done.stdout.count("of 2")) == (0, 2), done.stderr


NEEDS = {
    "cpu": (["slice", "LAYERS", "--ranks", "2"], "pip install 'rankmesh[slice,cpu]'"),
    "serve": (["serve", "MODEL"], "serving needs the extra `serve`: pip install"),
    "serve to measure": (["bench", "http://localhost:1"], "needs the extra `serve`: pip install"),
    "generate": (["generate", "DECODER", "a text"], "pip install 'rankmesh[generate]'"),
    "ray": (["serve", "MODEL", "--launcher", "ray", "--port", "0"], "needs the package ray ("),
    "hf": (["slice", "FOLDER", "--ranks", "2"], "'rankmesh[slice,hf]'"),
}
"""A command, and what it says where the packages of its extra are missing."""


@pytest.mark.parametrize("case", NEEDS)
def test_a_command_names_the_extra_that_it_needs(tmp_path: Path, case: str) -> None:
    command, text = NEEDS[case]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").write_bytes(b"")
    places = {"MODEL": summing(tmp_path), "FOLDER": folder, "LAYERS": two_layers(tmp_path)}
    places["DECODER"] = Path(__file__).parent / "data" / "decoders" / "llama"
    hidden = hiding(tmp_path / "site", *PACKAGES[case.partition(" ")[0]])
    done = rankmesh(*(places.get(one, one) for one in command), **hidden)
    assert done.returncode == 2 and text in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def test_collectives_of_torch_name_the_extra(tmp_path: Path) -> None:
    hidden = hiding(tmp_path / "site", *PACKAGES["torch"])
    done = program("import rankmesh; rankmesh.torch", **hidden)
    assert done.stderr.endswith("which is not installed: pip install 'rankmesh[torch]'.\n")
