"""A rank table of several servers, before any rank is started: who this host is, and whether there
is a key file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import rankmesh
from shards import summing

from rankmesh.comm.job.rank import Rank
from rankmesh.launch.rank.rank_environment import rendezvous_variables
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable


def table(path: Path, *addresses: str) -> str:
    servers = tuple(Server(address, (Device(rank, 0),)) for rank, address in enumerate(addresses))
    path.write_bytes(RankTable(servers).to_json())
    return str(path)


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "main.py").touch()
    return ["--rank-table", table(tmp_path / "table.json", "127.0.0.1", "203.0.113.1")]


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "key"
    assert rankmesh("key", "make", path).returncode == 0
    monkeypatch.setenv("RANKMESH_KEY_FILE", str(path))
    return path


def test_ranks_are_told_where_to_meet(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "table.json", "127.0.0.1", "203.0.113.1")
    monkeypatch.setenv("RANKMESH_PORT", "5000")
    variables = rendezvous_variables(Rank(0, 2, 0, 1, "here", 0), path)
    assert variables["RANKMESH_ADDRESS"] == "127.0.0.1" and variables["RANKMESH_PORT"] == "5000"
    assert variables["RANKMESH_JOB"].startswith("rank table ")


def test_ranks_of_one_host_need_no_key_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANKMESH_KEY_FILE", raising=False)
    assert (
        rendezvous_variables(
            Rank(0, 2, 0, 2, "here", 0), table(tmp_path / "table.json", "127.0.0.1")
        )
        == {}
    )
    assert rendezvous_variables(Rank(0, 2, 0, 2, "here", 0), None) == {}


def test_without_a_key_file_several_hosts_are_refused(
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RANKMESH_KEY_FILE", raising=False)
    for command in (["run", summing(tmp_path)], ["launch"]):
        last = [str(tmp_path / "main.py")] if command == ["launch"] else []
        done = rankmesh(*command, *arguments, *last)
        assert done.returncode == 2 and "RANKMESH_KEY_FILE names no key file" in done.stderr, (
            done.stderr
        )
        assert "rankmesh key make FILE" in done.stderr and "Traceback" not in done.stderr


def test_key_file_that_others_may_read_is_refused(
    tmp_path: Path, arguments: list[str], key_file: Path
) -> None:
    key_file.chmod(0o644)
    done = rankmesh("run", summing(tmp_path), *arguments)
    assert done.returncode == 2 and f"the key file {key_file} has mode 0644" in done.stderr, (
        done.stderr
    )


def test_table_without_this_host_is_refused(tmp_path: Path, key_file: Path) -> None:
    path = table(tmp_path / "table.json", "203.0.113.1", "203.0.113.2")
    done = rankmesh("run", summing(tmp_path), "--rank-table", path)
    assert (
        done.returncode == 2
        and "it lists 203.0.113.1, 203.0.113.2, and this host is" in done.stderr
    )


def test_shared_memory_cannot_be_had_across_hosts(
    tmp_path: Path, arguments: list[str], key_file: Path
) -> None:
    done = rankmesh("run", summing(tmp_path), *arguments, "--collectives", "shared_memory")
    assert done.returncode == 2 and "the ranks are on several hosts: choose gloo" in done.stderr
