"""Tables made from devices, merged from several files, and the names of their files."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankmesh.rank_tables
from rankmesh.rank_tables.build import file_name, make, merge, read_device_ips
from rankmesh.rank_tables.fault import RankTableFault
from rankmesh.rank_tables.server import Device, Server, SuperPod
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure

FOLDER = Path(rankmesh.rank_tables.__file__).parent
IPS = {4: "192.98.30.21", 5: "192.99.30.21"}


def test_a_table_made_is_the_one_that_the_usual_tool_writes():
    table = make("10.20.30.41", [4, 5], IPS)
    example = FOLDER / file_name(table)
    assert example.name == "hccl_2p_45_10.20.30.41.json"
    assert json.loads(table.to_json()) == json.loads(example.read_text())


def test_devices_without_an_address_and_in_any_order():
    table = make("node_0", [5, 4], {4: "192.0.2.4"})
    assert table.servers == (Server("node_0", (Device(0, 5), Device(1, 4, "192.0.2.4"))),)
    assert file_name(table) == "hccl_2p_54_node_0.json"


def test_super_device_ids_make_a_super_pod():
    table = make("node_0", [0, 1], super_device_ids=[113246208, 113311745], super_pod_id="3")
    assert table.super_pods == (SuperPod("3", ("node_0",)),)
    assert json.loads(table.to_json())["version"] == "1.2"
    assert RankTable.parse(table.to_json()) == table


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("10.20.30.400", [0]), r"server_list\[0\].server_id: got '10.20.30.400'"),
        (("../up", [0]), r"server_list\[0\].server_id: got '../up'"),
        (("fe80::1%/etc", [0]), r"server_list\[0\].server_id: got"),
        (("a", []), r"server_list\[0\].device: has 0 elements"),
        (("a", [0, 0]), r"server_list\[0\].device\[1\].device_id: 0 is repeated"),
        (("a", [0], {0: "1.2"}), r"server_list\[0\].device\[0\].device_ip: got '1.2'"),
        (("a", [0, 1], None, [7]), r"got 1 super device id\(s\) for 2 device\(s\)"),
        (("a", [0, 1], None, [7, 7]), r"super_device_id: 7 is repeated in the super pod '0'"),
        (("a", [0], None, [-1]), r"super_device_id: got -1, expected"),
    ],
)
def test_what_no_table_can_be_made_of(arguments: tuple, text: str):
    with pytest.raises(RankTableFault, match=text):
        make(*arguments)


def test_a_merged_table_has_the_ranks_of_the_files_in_order():
    table = merge(
        [("b.json", make("b", [3, 1])), ("a.json", make("a", [0])), ("c.json", make("c", [2]))]
    )
    assert [(server.server_id, server.ranks) for server in table.servers] == [
        ("b", (0, 1)),
        ("a", (2,)),
        ("c", (3,)),
    ]
    assert table.device_of(1).device_id == 1
    assert file_name(table) == "hccl_3s_4p.json"


def test_tables_of_several_servers_and_one_super_pod_merge_too():
    first, second = make("b", [0], super_device_ids=[4]), make("c", [0], super_device_ids=[5])
    third = make("d", [0], super_device_ids=[4], super_pod_id="1")
    table = merge([("x", merge([("b", first), ("c", second)])), ("y", third)])
    assert table.world_size == 3
    assert table.super_pods == (SuperPod("0", ("b", "c")), SuperPod("1", ("d",)))


def test_a_server_in_two_files_is_refused_with_both_names():
    with pytest.raises(RankTableFault, match="two.json: server 'a' is in one.json too"):
        merge([("one.json", make("a", [0])), ("two.json", make("a", [1]))])


def test_contradictions_between_files_name_the_files():
    pod = make("a", [0], super_device_ids=[4])
    with pytest.raises(
        RankTableFault, match="merged table of x, y: .*: 4 is repeated in the super pod '0'"
    ):
        merge([("x", pod), ("y", make("b", [0], super_device_ids=[4]))])
    with pytest.raises(
        RankTableFault, match="merged table of x, y: super_pod_list: names no super pod for .* 'b'"
    ):
        merge([("x", pod), ("y", make("b", [0]))])
    with pytest.raises(
        RankTableFault, match="merged table of no files: server_list: has 0 elements"
    ):
        merge([])


@given(
    st.lists(
        st.lists(st.integers(0, 63), min_size=1, max_size=8, unique=True), min_size=1, max_size=5
    )
)
def test_merging_the_parts_gives_the_whole(ids: list[list[int]]):
    tables = [(f"{i}.json", make(f"host-{i}", devices)) for i, devices in enumerate(ids)]
    whole = merge(tables)
    assert RankTable.parse(whole.to_json()) == RankTable.parse(whole.to_json("1.2")) == whole
    assert [whole.device_of(r).device_id for r in range(whole.world_size)] == [
        d for devices in ids for d in devices
    ]
    assert merge([("a", merge(tables[:1])), *tables[1:]]) == whole


def test_device_addresses_of_an_ascend_host(tmp_path: Path):
    conf = tmp_path / "hccn.conf"
    conf.write_bytes(
        b"address_4=192.98.30.21\nnetmask_4=255.255.255.0\n address_5 = 192.99.30.21 \n\xff=\n"
    )
    assert read_device_ips(conf) == IPS
    assert read_device_ips(tmp_path / "none") == {}
