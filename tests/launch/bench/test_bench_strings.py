"""`rankmesh bench` of a model that takes and gives strings: random texts, and those of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served_http import ServerProcess, serving
from short_bench import bench

from rankmesh.comm.errors import InputError

STEPS = """\
import numpy as np


def upper(text):
    return np.array([one.upper() for one in text.reshape(-1)], object).reshape(text.shape)
"""
SERVE = """\
models:
  upper:
    python: steps.py:upper
    inputs: [{name: text, dtype: bytes, dims: [-1, 2]}]
    outputs: [{name: big, dtype: bytes, dims: [-1, 2]}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("strings")
    (made / "steps.py").write_text(STEPS)
    (made / "serve.yaml").write_text(SERVE)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with serving(folder / "serve.yaml", "--grpc-port", "0") as made:
        yield made


def target(server: ServerProcess, folder: Path, protocol: str) -> str:
    if protocol == "local":
        return str(folder / "serve.yaml")
    port = server.grpc_port if protocol == "grpc" else server.port
    return f"{protocol}://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("protocol", "tensors"),
    [("http", "binary"), ("http", "json"), ("grpc", "binary"), ("local", "binary")],
)
def test_random_texts(server: ServerProcess, folder: Path, protocol: str, tensors: str) -> None:
    given = {"shapes": ("text:3,2",), "token_file": None, "tensors": tensors}
    status, found = bench(folder, target(server, folder, protocol), "2", **given)
    (one,) = found["levels"]
    assert status == 0 and one["answered"] > 0 and not one["failed"] and not one["wrong"]


@pytest.fixture
def right(folder: Path) -> str:
    path = str(folder / "right.npz")
    np.savez(path, text=[["ant", "größe"]], big=[[b"ANT", "größe".encode().upper()]])
    return path


FORMS = [("http", "binary"), ("http", "json"), ("grpc", "binary")]


@pytest.mark.parametrize(("protocol", "tensors"), FORMS)
def test_texts_of_files(
    server: ServerProcess, folder: Path, right: str, protocol: str, tensors: str
) -> None:
    given = {"shapes": (), "token_file": None, "tensors": tensors, "inputs": right}
    status, found = bench(folder, target(server, folder, protocol), "1", expect=right, **given)
    assert status == 0 and found["levels"][0]["answered"] > 0


def test_other_texts_are_told(server: ServerProcess, folder: Path, right: str) -> None:
    wrong, numbers = str(folder / "wrong.npz"), str(folder / "numbers.npz")
    np.savez(wrong, big=[["ANT", "ant"]])
    np.savez(numbers, text=np.ones((1, 2)))
    given = {"shapes": (), "token_file": None}
    address = target(server, folder, "http")
    with pytest.raises(InputError, match="answer differs: the output 'big' has other strings"):
        bench(folder, address, "1", inputs=right, expect=wrong, **given)
    with pytest.raises(InputError, match=r"is float64 of the shape \[1, 2\], expected texts"):
        bench(folder, address, "1", inputs=numbers, **given)
