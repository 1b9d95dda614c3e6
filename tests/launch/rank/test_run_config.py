"""`rankmesh run --config` and `rankmesh inspect MODEL --config`: what lies beside a model, and what
else acts there.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from group_files import encoded
from meetings import together
from mindir_models import DATA
from onnx import save
from onnx_models import collective, model, node
from processes import PATIENCE, rankmesh

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.shard import Shards
from rankmesh.launch.inspection.inspect import inspect_model
from rankmesh.launch.options.user_files import read_config
from rankmesh.launch.rank.job import RankReport, RunJob
from rankmesh.launch.rank.run_rank import run_rank
from rankmesh.launch.run.options import RunOptions
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.store import CacheStore
from rankmesh.worker.runtime.program import Program

SPLIT = DATA / "split_mlp"
GROUPS = {"pair": (0, 1), "single": (2,)}


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A split model's graph in one folder, its weights in another, and a configuration that says
    where.
    """
    monkeypatch.chdir(tmp_path)  # `../weights` must not lead anywhere from the current folder
    shutil.copytree(SPLIT / "split_mlp_variables", tmp_path / "weights" / "split_mlp_variables")
    (tmp_path / "graph").mkdir()
    shutil.copy(SPLIT / "split_mlp_graph.mindir", tmp_path / "graph")
    ini = tmp_path / "weights" / "model.ini"
    ini.write_text("[model_file]\nmindir_path = ../weights\n")  # beside the configuration
    return tmp_path / "graph" / "split_mlp.mindir", ini


@pytest.fixture
def grouped(tmp_path: Path) -> tuple[Path, Path]:
    """Three shards that only name their groups, and a configuration with the groups' ranks and the
    ranks' devices.
    """
    for rank in range(3):
        reduce = collective("AllReduce", "x", "y", group="pair" if rank < 2 else "single")
        save(model([reduce], {"x": [4]}, {"y": [4]}), str(tmp_path / f"m{rank}.onnx"))
    (tmp_path / "groups.ckpt").write_bytes(encoded(GROUPS))
    device = [{"device_id": str(rank), "rank_id": str(rank)} for rank in range(3)]
    table = {
        "version": "1.0",
        "server_list": [{"server_id": "127.0.0.1", "device": device}],
        "status": "completed",
    }
    (tmp_path / "table.json").write_text(json.dumps(table))
    ini = tmp_path / "m.ini"
    ini.write_text(
        '[ascend_context]\ngroup_info_file = "groups.ckpt"\nrank_table_file = table.json\n'
    )
    return tmp_path / "m.onnx", ini


def test_weights_in_another_folder(apart: tuple[Path, Path]) -> None:
    path, ini = apart
    data = ("--inputs", SPLIT / "split_mlp.npz", "--expect", SPLIT / "split_mlp.npz")
    done = rankmesh("run", path, "--config", ini, *data)
    assert done.returncode == 0, done.stderr
    assert "OK: 1 output of 1 rank matches" in done.stdout
    without = rankmesh("run", path, *data)
    assert (
        without.returncode == 3 and "split_mlp_variables/data_0, which is missing" in without.stderr
    )


def test_named_groups_and_the_rank_table(grouped: tuple[Path, Path]) -> None:
    path, ini = grouped
    done = rankmesh(
        "run", path, "--config", ini, "--device", "cpu", "--collectives", "shared_memory", "-v"
    )
    assert done.returncode == 0, done.stderr
    assert "rankmesh: 3 ranks" in done.stderr
    assert [line.split()[-4:] for line in done.stdout.splitlines() if "output data is" in line] == [
        ["2.0"] * 4,
        ["2.0"] * 4,
        ["1.0"] * 4,
    ]
    contradicted = rankmesh("run", path, "--config", ini, "--ranks", 2)
    assert contradicted.returncode == 2 and "--ranks 2 contradicts" in contradicted.stderr


def run(path: Path, config: Path | None, device: str = "cpu") -> RankReport:
    """The report of a lone rank."""
    asked = RunOptions(str(path), config=str(config) if config else None)
    job = asked.job(Shards(str(path), 1), device, read_config(asked.config), spin=False)
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=RunJob)
    return together(1, lambda meeting: run_rank(wire, meeting))[0]


def test_precision_and_the_model_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    weight = np.full(4, 2**-12, np.float32)
    save(
        model([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]}, constants={"w": weight}),
        str(tmp_path / "m.onnx"),
    )
    ini = tmp_path / "m.ini"
    ini.write_text(
        "[cpu_context]\nprecision_mode = preferred_fp16\n[execution_plan]\nstranger = "
        "data_type:float32\n"
        f"[ascend_context]\nmodel_cache_dir = {tmp_path / 'cache'}\n"
    )
    assert run(tmp_path / "m.onnx", None).outputs[0].first == ("1.0002441",) * 4
    with caplog.at_level(logging.WARNING):
        assert (
            run(tmp_path / "m.onnx", ini).outputs[0].first == ("1.0",) * 4
        )  # float16 has no such number
    assert "[execution_plan] stranger: no node of" in caplog.text
    assert (tmp_path / "cache").is_dir()


def test_a_rank_reports_after_its_build_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts ranks takes the report for the end, and does not wait long after that."""
    ran, kept, add, close = threading.Event(), list[bool](), CacheStore.add, Program.close
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setattr(
        CacheStore, "add", lambda *arguments: kept.append(ran.wait(PATIENCE) and add(*arguments))
    )
    monkeypatch.setattr(Program, "close", lambda program: (close(program), ran.set()))
    save(model([node("Neg", "x", "y")], {"x": [4]}, {"y": [4]}), str(tmp_path / "m.onnx"))
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    run(tmp_path / "m.onnx", None)
    assert kept == [True]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"\xff\xff\xff", "cannot be read as text"),
        (b"[model_file]\nmindir_path = /no/such\n", "/no/such: does not exist"),
        (
            b"[ascend_context]\ngroup_info_file = /no/such\n",
            "group_info_file /no/such: cannot be read",
        ),
    ],
)
def test_configurations_that_cannot_be_used(text: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "m.ini").write_bytes(text)
    for act in (
        lambda: run(SPLIT / "split_mlp.mindir", tmp_path / "m.ini"),
        lambda: inspect_model(
            str(SPLIT / "split_mlp.mindir"), False, config=str(tmp_path / "m.ini")
        ),
    ):
        with pytest.raises(UsageError, match=error):
            act()


def described(
    capsys: pytest.CaptureFixture[str], model: Path, config: Path
) -> list[dict[str, Any]]:
    inspect_model(str(model), True, config=str(config))
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_inspection_of_a_model_with_its_configuration(
    apart: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = described(capsys, *apart)
    assert one["parameters"] == 6 and one["outputs"][0]["shape"]


def test_inspection_of_shards_and_of_a_lone_one_with_named_groups(
    grouped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, ini = grouped
    ranks = [one["collectives"][0]["ranks"] for one in described(capsys, path, ini)]
    assert ranks == [[0, 1], [0, 1], [2]]
    (lone,) = described(capsys, path.with_name("m2.onnx"), ini)
    assert lone["collectives"][0]["ranks"] == [2]


def test_the_command_inspects_a_model_with_its_configuration(apart: tuple[Path, Path]) -> None:
    done = rankmesh("inspect", apart[0], "--config", apart[1], "--json")
    assert done.returncode == 0, done.stderr
    assert [one["format"] for one in json.loads(done.stdout)] == ["MindIR"]
