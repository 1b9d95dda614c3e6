"""`rankmesh rank-table` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import rankmesh
from typer.testing import CliRunner, Result

import rankmesh.rank_tables as shipped
from rankmesh.comm.errors import UsageError
from rankmesh.launch.cli import app
from rankmesh.launch.commands.rank_table import ids
from rankmesh.launch.supervision import host
from rankmesh.rank_tables.build import make, merge
from rankmesh.rank_tables.table import RankTable

SHIPPED = sorted(Path(shipped.__file__).parent.glob("*.json"))


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rank_table(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rank-table", *map(str, arguments)])


def refused(*arguments: object) -> str:
    result = rank_table(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_tables_are_made_merged_and_checked(tmp_path: Path) -> None:
    first = rank_table("make", "--devices", "0-1", "--ip", "192.0.2.1")
    assert first.output == "wrote hccl_2p_01_192.0.2.1.json: 1 server, 2 ranks\n"
    (tmp_path / "out").mkdir()
    second = rank_table(
        "make", "--devices", "4", "--ip", "node_1", "--version", "1.2", "--out", "out"
    )
    assert second.output == "wrote out/hccl_1p_4_node_1.json: 1 server, 1 rank\n"
    assert json.loads(Path("out/hccl_1p_4_node_1.json").read_text())["version"] == "1.2"
    merged = rank_table("merge", "hccl_2p_01_192.0.2.1.json", "out/hccl_1p_4_node_1.json")
    assert merged.output == "wrote hccl_2s_3p.json: 2 servers, 3 ranks\n"
    checked = rank_table("check", "hccl_2s_3p.json")
    assert checked.exit_code == 0
    assert checked.output.splitlines() == [
        "hccl_2s_3p.json: ok, version 1.0, 2 servers, 3 ranks",
        "  192.0.2.1: ranks 0 to 1 on devices 0, 1",
        "  node_1: rank 2 on device 4",
    ]
    assert RankTable.read("hccl_2s_3p.json") == merge(
        [("", make("192.0.2.1", [0, 1])), ("", make("node_1", [4]))]
    )


def test_by_default_a_table_is_of_this_host() -> None:
    result = rank_table("make", "--devices", "0")
    if isinstance(result.exception, UsageError):
        assert "no address but its own loopback" in str(result.exception)
    else:
        table = RankTable.read(result.output.split(": 1 server")[0].removeprefix("wrote "))
        assert table.servers[0].server_id in host.names()


def test_super_devices_make_a_super_pod() -> None:
    rank_table(
        "make",
        "--devices",
        "0-1",
        "--ip",
        "a",
        "--super-devices",
        "8,9",
        "--super-pod",
        "2",
        "--out",
        ".",
    )
    table = RankTable.read("hccl_2p_01_a.json")
    assert table == make("a", [0, 1], super_device_ids=[8, 9], super_pod_id="2")
    rank_table("merge", "hccl_2p_01_a.json", "--out", "one.json")
    assert RankTable.read("one.json") == table
    assert "is for version 1.2" in refused(
        "make", "--devices", "0", "--super-devices", "8", "--version", "1.0"
    )


def test_every_shipped_table_is_right() -> None:
    result = rank_table("check", *SHIPPED)
    assert result.exit_code == 0
    assert result.output.count(": ok, ") == len(SHIPPED) == 9


def test_faults_are_all_shown_with_their_paths() -> None:
    document = {
        "version": "1.0",
        "status": "completed",
        "server_count": 2,
        "server_list": [
            {
                "server_id": "a",
                "device": [{"device_id": 0, "rank_id": 0}, {"device_id": 0, "rank_id": 3}],
            }
        ],
    }
    Path("bad.json").write_text(json.dumps(document))
    result = rank_table("check", "none.json", SHIPPED[0], "bad.json")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        "none.json: 1 fault",
        "  cannot be read: No such file or directory",
        f"{SHIPPED[0]}: ok, version 1.0, 1 server, 1 rank",
        "  10.20.30.41: rank 0 on device 0",
        "bad.json: 3 faults",
        "  server_count: got 2, but server_list has 1 element(s)",
        "  server_list[0].device[1].device_id: 0 is repeated; "
        "server_list[0].device[0].device_id has it already",
        "  server_list[0].device[1].rank_id: got 3, expected at most 1 as the table has 2 "
        "device(s); rank 1 is missing",
    ]


def test_a_flood_of_faults_is_cut() -> None:
    Path("bad.json").write_text(
        json.dumps({"version": "1.0", "status": "completed", "server_list": [None] * 60})
    )
    lines = rank_table("check", "bad.json").output.splitlines()
    assert (lines[0], len(lines), lines[-1]) == (
        "bad.json: 50 faults",
        52,
        "  there may be more; correct these first",
    )


def test_what_cannot_be_made_or_merged() -> None:
    assert "server_list[0].server_id: got '300.1.1.1'" in refused(
        "make", "--devices", "0", "--ip", "300.1.1.1"
    )
    assert "got '3', expected '1.0' or '1.2'" in refused(
        "make", "--devices", "0", "--ip", "a", "--version", "3"
    )
    assert not list(Path().iterdir())
    assert "nowhere/hccl_1p_0_a.json cannot be written: No such file" in refused(
        "make", "--devices", "0", "--ip", "a", "--out", "nowhere"
    )
    assert "none.json: cannot be read" in refused("merge", "none.json")
    assert f"{SHIPPED[1]}: server '10.20.30.41' is in {SHIPPED[0]} too" in refused(
        "merge", SHIPPED[0], SHIPPED[1]
    )


def test_ids() -> None:
    assert ids("--devices", "4-5, 1,7-7") == [4, 5, 1, 7]
    for text in (
        "",
        "x",
        "1,",
        "3-1",
        "-1",
        "0-65536",
        "0-40000,0-40000",
        "0-9999999999",
        "\u0661",
    ):
        with pytest.raises(
            UsageError, match=r"--devices is .*, expected ids such as 0-7 or 0,1,4-5"
        ):
            ids("--devices", text)


def test_the_command_explains_itself_and_exits_as_said() -> None:
    shown = rankmesh("rank-table", "--help", COLUMNS="200")
    assert shown.returncode == 0 and "which rank runs on which device" in shown.stdout
    failed = rankmesh("rank-table", "merge", "none.json")
    assert (failed.returncode, failed.stderr) == (
        2,
        "rankmesh: none.json: cannot be read: No such file or directory\n",
    )
    assert rankmesh("rank-table", "check", "none.json").returncode == 2
