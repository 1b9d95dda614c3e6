"""All versions of the format: what each file says, and the JSON path of everything that can be
wrong with it.
"""

import json
import re
from pathlib import Path

import pytest
from documents import changed, json_path
from hypothesis import given
from hypothesis import strategies as st

import rankmesh.rank_tables
from rankmesh.rank_tables.fault import RankTableFault
from rankmesh.rank_tables.review import review
from rankmesh.rank_tables.server import Device, Server, SuperPod
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure

FOLDER = Path(rankmesh.rank_tables.__file__).parent
SUPER_POD, RANK_LIST = "superpod_v1.2_2x2.json", "v2.0_rank_list_1.json"
LAB, POD = "legacy_group_list_lab_1x2.json", "legacy_group_list_pod_1x2.json"
OTHER_FORMS = (SUPER_POD, RANK_LIST, LAB, POD)


def document(name: str) -> dict:
    return json.loads((FOLDER / name).read_text())


def parsed(value: object) -> RankTable:
    return RankTable.parse(json.dumps(value).encode(), "table.json")


def faults_of(value: object) -> dict[str, str]:
    """The text of each fault, by its path."""
    with pytest.raises(RankTableFault) as caught:
        parsed(value)
    faults = caught.value.all
    assert all(str(fault) == f"table.json: {fault.path}: {fault.text}" for fault in faults)
    assert len({fault.path for fault in faults}) == len(faults)
    return {fault.path: fault.text for fault in faults}


def one_server(count: int, first: int = 0, second_digit: int = 20) -> tuple[Device, ...]:
    """Devices as the shipped examples number and address them."""
    nets = (98, 99, 100, 101)
    return tuple(
        Device(first + i, i, f"192.{nets[i % 4]}.{second_digit}.{20 + i // 4}")
        for i in range(count)
    )


TWO = (Device(0, 0, "192.98.30.20"), Device(1, 1, "192.99.30.20"))
EXPECTED = {
    "hccl_1p_0_10.20.30.41.json": ("version 1.0", RankTable((Server("10.20.30.41", TWO[:1]),))),
    "hccl_2p_01_10.20.30.41.json": ("version 1.0", RankTable((Server("10.20.30.41", TWO),))),
    "hccl_2p_45_10.20.30.41.json": (
        "version 1.0",
        RankTable(
            (Server("10.20.30.41", (Device(0, 4, "192.98.30.21"), Device(1, 5, "192.99.30.21"))),)
        ),
    ),
    "hccl_8p_01234567_10.20.30.41.json": (
        "version 1.0",
        RankTable((Server("10.20.30.41", one_server(8, 0, 30)),)),
    ),
    "hccl_2s_16p.json": (
        "version 1.0",
        RankTable(
            (
                Server("10.20.30.41", one_server(8, 0, 30)),
                Server("10.20.30.42", one_server(8, 8, 31)),
            )
        ),
    ),
    SUPER_POD: (
        "version 1.2",
        RankTable(
            (
                Server(
                    "node_0",
                    (Device(0, 0, "192.98.30.20", 0), Device(1, 1, "192.99.30.20", 1)),
                    "10.20.30.41",
                ),
                Server(
                    "node_1",
                    (Device(2, 0, "192.98.31.20", 2), Device(3, 1, "192.99.31.20", 3)),
                    "10.20.30.42",
                ),
            ),
            (SuperPod("0", ("node_0", "node_1")),),
        ),
    ),
    RANK_LIST: ("version 2.0", RankTable((Server("pod0", (Device(0, 0), Device(1, 1))),))),
    LAB: ("group_list with rank ids", RankTable((Server("10.20.30.41", TWO),))),
    POD: ("group_list without rank ids", RankTable((Server("10.20.30.41", TWO),))),
}


def test_every_shipped_file_has_its_row():
    assert sorted(EXPECTED) == sorted(path.name for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", EXPECTED)
def test_what_each_version_says(name: str):
    found = review(FOLDER / name)
    assert (found.format, found.table, found.faults) == (*EXPECTED[name], ())


@pytest.mark.parametrize("name", EXPECTED)
def test_ids_may_be_strings_or_integers(name: str):
    def as_integers(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: int(v)
                if key.endswith(("_id", "_count", "_num")) and isinstance(v, str) and v.isdigit()
                else as_integers(v)
                for key, v in value.items()
            }
        return [as_integers(v) for v in value] if isinstance(value, list) else value

    assert parsed(as_integers(document(name))) == EXPECTED[name][1]
    assert parsed(json.loads(json.dumps(document(name)), parse_int=str)) == EXPECTED[name][1]


NODE_1 = "server_list.1"
LEVEL = "rank_list.1.level_list.0"
INSTANCE = "group_list.0.instance_list.1"
FAULTS = [
    (
        SUPER_POD,
        "super_pod_list.0.server_list.1.server_id",
        "node_9",
        {
            "super_pod_list[0].server_list[1].server_id": (
                "got 'node_9', which server_list does not name"
            ),
            "super_pod_list": "names no super pod for the server 'node_1'",
        },
    ),
    (
        SUPER_POD,
        "super_pod_list.0.server_list.1",
        {"server_id": "node_0"},
        {
            "super_pod_list[0].server_list[1].server_id": r"'node_0' is repeated; super_pod_list\[0\].server_list\[0\]",  # noqa: E501
            "super_pod_list": "names no super pod for the server 'node_1'",
        },
    ),
    (SUPER_POD, "super_pod_list.0.super_pod_id", ..., "is missing"),
    (SUPER_POD, "super_pod_list.0.super_pod_id", "", "got '', expected 1 to 64 characters"),
    (SUPER_POD, "super_pod_list.0.super_pod_id", None, "got null, expected an integer"),
    (SUPER_POD, "super_pod_list.0.server_list", ..., "is missing"),
    (SUPER_POD, "super_pod_list", {}, "got an object, expected a list"),
    (
        SUPER_POD,
        f"{NODE_1}.device.0.super_device_id",
        "1",
        r"1 is repeated in the super pod '0'; server_list\[0\].device\[1\].super_device_id has it",
    ),
    (SUPER_POD, f"{NODE_1}.device.0.super_device_id", 2**32, "got 4294967296, expected an integer"),
    (
        SUPER_POD,
        f"{NODE_1}.device.1.device_id",
        "0",
        r"0 is repeated; server_list\[1\].device\[0\].device_id",
    ),
    (SUPER_POD, f"{NODE_1}.host_ip", "10.20.30", "got '10.20.30', expected an IP address"),
    (SUPER_POD, "server_count", 3, r"got 3, but server_list has 2 element\(s\)"),
    (SUPER_POD, "status", "initializing", "got 'initializing': the table is not finished"),
    (RANK_LIST, "status", "initializing", "got 'initializing': the table is not finished"),
    (RANK_LIST, "rank_count", 3, r"got 3, but rank_list has 2 element\(s\)"),
    (RANK_LIST, "rank_list", ..., "is missing"),
    (
        RANK_LIST,
        "rank_list",
        [],
        {"rank_list": "has 0 elements", "rank_count": "got 2, but rank_list has 0"},
    ),
    (RANK_LIST, "rank_list.1.rank_id", 0, r"0 is repeated; rank_list\[0\].rank_id has it already"),
    (RANK_LIST, "rank_list.1.rank_id", 5, r"got 5, expected at most 1 .* rank 1 is missing"),
    (
        RANK_LIST,
        "rank_list.1.device_id",
        0,
        r"0 is repeated; rank_list\[0\].device_id has it already",
    ),
    (
        RANK_LIST,
        "rank_list.1.local_id",
        0,
        r"0 is repeated; rank_list\[0\].local_id has it already",
    ),
    (RANK_LIST, "rank_list.1.level_list", [], "has no element whose net_layer is 0"),
    (RANK_LIST, f"{LEVEL}.net_instance_id", ..., "is missing"),
    (
        RANK_LIST,
        f"{LEVEL}.net_instance_id",
        "a b",
        "got 'a b', expected an IP address or a host name",
    ),
    (RANK_LIST, f"{LEVEL}.rank_addr_list.0.addr", 7, "got 7, expected a string"),
    (
        RANK_LIST,
        f"{LEVEL}.rank_addr_list.0",
        {"addr_type": "IPV4", "addr": "1.2.3"},
        {
            "rank_list[1].level_list[0].rank_addr_list[0].addr": (
                "got '1.2.3', expected an IP address"
            )
        },
    ),
    (LAB, "status", ..., "is missing"),
    (LAB, "group_count", "2", r"got 2, but group_list has 1 element\(s\)"),
    (LAB, "group_list.0.instance_count", "1", r"got 1, but instance_list has 2 element\(s\)"),
    (LAB, "group_list.0.device_num", "8", r"got 8, but the instances have 2 device\(s\)"),
    (LAB, "group_list.0.server_num", "2", r"got 2, but the instances are on 1 server\(s\)"),
    (
        LAB,
        f"{INSTANCE}.rank_id",
        "0",
        r"0 is repeated; group_list\[0\].instance_list\[0\].rank_id has it",
    ),
    (LAB, f"{INSTANCE}.rank_id", ..., "is missing, and other instances have one"),
    (LAB, f"{INSTANCE}.rank_id", "2", r"got 2, expected at most 1 .* rank 1 is missing"),
    (LAB, f"{INSTANCE}.server_id", ..., "is missing"),
    (
        LAB,
        f"{INSTANCE}.devices.0.device_id",
        "0",
        r"0 is repeated; .*instance_list\[0\].devices\[0\].device_id",
    ),
    (LAB, f"{INSTANCE}.devices", [], "has 0 elements, expected at least 1"),
    (
        LAB,
        f"{INSTANCE}.devices",
        [{"device_id": 1}, {"device_id": 2}],
        {
            json_path(
                f"{INSTANCE}.devices"
            ): "has 2 elements, expected 1 where instances have a rank_id"
        },
    ),
    (POD, "status", "initializing", "got 'initializing': the table is not finished"),
    (POD, "group_list.0.device_count", "1", r"got 1, but the instances have 2 device\(s\)"),
    (POD, "group_list.0.instance_count", "x", "got 'x', expected an integer"),
    (
        POD,
        "group_list.0.instance_list",
        [],
        {
            "group_list[0].instance_count": "got 1, but",
            "group_list[0].device_count": "got 2, but",
            "group_list": "has 0 elements",
        },
    ),
    (
        POD,
        "group_list.0.instance_list.0.server_id",
        "10.20.30.400",
        "got '10.20.30.400', expected an IP address",
    ),
    (
        POD,
        "group_list.0.instance_list.0.devices.1.device_id",
        "0",
        r"0 is repeated; .*devices\[0\].device_id has it",
    ),
    (
        POD,
        "group_list.0.instance_list.0.devices.1.device_ip",
        "x",
        "got 'x', expected an IP address",
    ),
]


@pytest.mark.parametrize(
    ("name", "place", "value", "text"), FAULTS, ids=[f"{name}-{at}" for name, at, *_ in FAULTS]
)
def test_every_fault_is_named_by_its_path(
    name: str, place: str, value: object, text: str | dict[str, str]
):
    expected = text if isinstance(text, dict) else {json_path(place): text}
    found = faults_of(changed(document(name), place, value))
    assert set(found) == set(expected)
    assert all(re.match(expected[path], found[path]) for path in found), found


def test_all_faults_of_a_file_are_found_at_once():
    value = document(SUPER_POD)
    for place, bad in (
        ("server_count", 9),
        ("server_list.0.server_id", "1.2.3"),
        (f"{NODE_1}.host_ip", "x"),
        (f"{NODE_1}.device.1.device_ip", "y"),
        (f"{NODE_1}.device.1.rank_id", 7),
    ):
        value = changed(value, place, bad)
    assert list(faults_of(value)) == [
        "server_count",
        "server_list[0].server_id",
        "server_list[1].host_ip",
        "server_list[1].device[1].device_ip",
        "server_list[1].device[1].rank_id",
        "super_pod_list[0].server_list[0].server_id",
        "super_pod_list",
    ]


def test_what_has_the_wrong_shape_is_found_at_once_and_first():
    value = changed(document(SUPER_POD), "server_list.0.device.0.rank_id", None)
    value = changed(
        changed(value, f"{NODE_1}.device.1.device_id", []), "server_list.0.server_id", "node_1"
    )
    assert faults_of(value) == {
        "server_list[0].device[0].rank_id": (
            "got null, expected an integer of 0 or more (below 4294967296)"
        ),
        "server_list[1].device[1].device_id": (
            "got a list, expected an integer of 0 or more (below 4294967296)"
        ),
    }


def test_every_missing_rank_is_named():
    value = changed(
        changed(document(SUPER_POD), "server_list.0.device.1.rank_id", 8),
        f"{NODE_1}.device.1.rank_id",
        9,
    )
    found = faults_of(value)
    assert [re.findall(r"rank \d is missing", text) for text in found.values()] == [
        ["rank 1 is missing"],
        ["rank 3 is missing"],
    ]


def test_super_pods_are_optional_and_1_0_ignores_them():
    value = changed(document(SUPER_POD), "super_pod_list", ...)
    value = changed(value, f"{NODE_1}.device.0.super_device_id", "1")
    assert parsed(value).super_pods == ()
    assert (
        parsed(changed(value, f"{NODE_1}.device.0.super_device_id", ...))
        .device_of(2)
        .super_device_id
        is None
    )
    old = parsed(
        changed(changed(document(SUPER_POD), "version", "1.0"), "super_pod_list.0", "nonsense")
    )
    assert old.super_pods == () and old.device_of(3).super_device_id is None


def test_super_device_ids_may_repeat_in_another_super_pod():
    value = changed(document(SUPER_POD), f"{NODE_1}.device.0.super_device_id", "1")
    table = parsed(
        changed(
            value,
            "super_pod_list",
            [
                {"super_pod_id": pod, "server_list": [{"server_id": f"node_{pod}"}]}
                for pod in (0, 1)
            ],
        )
    )
    assert table.super_pods == (SuperPod("0", ("node_0",)), SuperPod("1", ("node_1",)))


def test_writing_1_0_leaves_super_pods_out_and_1_2_keeps_them():
    table = RankTable.read(FOLDER / SUPER_POD)
    assert table.to_json() == table.to_json("1.2")
    plain = RankTable.parse(table.to_json("1.0"))
    assert plain.super_pods == () and plain.device_of(3) == Device(3, 1, "192.99.31.20")
    assert json.loads(plain.to_json("1.2"))["version"] == "1.2"
    assert RankTable.parse(plain.to_json("1.2")) == plain
    with pytest.raises(RankTableFault, match="version: got '2.0', expected '1.0' or '1.2'"):
        table.to_json("2.0")


def test_ranks_of_2_0_in_two_net_instances_are_two_servers():
    value = document(RANK_LIST)
    value = changed(changed(value, f"{LEVEL}.net_instance_id", "pod1"), "rank_list.1.device_id", 0)
    value = changed(value, f"{LEVEL}.rank_addr_list.0", {"addr_type": "IPV4", "addr": "192.0.2.7"})
    assert parsed(changed(value, "rank_list.1.local_id", 0)).servers == (
        Server("pod0", (Device(0, 0),)),
        Server("pod1", (Device(1, 0, "192.0.2.7"),)),
    )


def test_pods_and_groups_of_the_old_form_are_ranked_in_order():
    def pod(server: str, *ids: int) -> dict:
        return {"server_id": server, "devices": [{"device_id": i} for i in ids]}

    table = parsed(
        {
            "status": "completed",
            "group_list": [
                {"instance_list": [pod("b", 3, 1), pod("b", 0)]},
                {"instance_list": [pod("a", 0)]},
            ],
        }
    )
    assert table.servers == (
        Server("b", (Device(0, 3), Device(1, 1), Device(2, 0))),
        Server("a", (Device(3, 0),)),
    )
    pods = [pod("b", 0), pod("a", 0), pod("b", 1)]
    apart = faults_of({"status": "completed", "group_list": [{"instance_list": pods}]})
    assert apart["group_list[0].instance_list[0].devices"].startswith("has rank 0 but not rank 1")


@given(st.sampled_from(OTHER_FORMS), st.data())
def test_a_damaged_table_gives_a_table_or_a_fault(name: str, data: st.DataObject):
    text = bytearray((FOLDER / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    accepted_or_refused(bytes(text))


def places(value: object, prefix: str = "") -> list[str]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [
            place for key, v in pairs for place in (f"{prefix}{key}", *places(v, f"{prefix}{key}."))
        ]
    return []


keys = st.text(max_size=3).filter(lambda key: "." not in key and not key.isdigit())
"""Those that `changed` can name in a place."""

anything = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2**33)
    | st.floats()
    | st.text(max_size=4)
    | st.just(...)
    | st.lists(st.none() | st.dictionaries(keys, st.none(), max_size=1), max_size=2)
)


@given(st.sampled_from(OTHER_FORMS), st.data())
def test_other_values_give_a_table_or_a_fault(name: str, data: st.DataObject):
    value = document(name)
    for _ in range(data.draw(st.integers(1, 4))):
        value = changed(
            value, data.draw(st.sampled_from(places(value) or [""])), data.draw(anything)
        ) or {"": 0}
    accepted_or_refused(json.dumps(value).encode())


def accepted_or_refused(data: bytes) -> None:
    try:
        table = RankTable.parse(data)
    except RankTableFault:
        return
    assert RankTable.parse(table.to_json()) == table


def test_version_2_may_leave_out_the_status_and_the_addresses() -> None:
    table = document(RANK_LIST)
    del table["status"]
    level = table["rank_list"][0]["level_list"][0]
    level["rank_addr_list"] = [{"addr_type": "IPV4", "addr": "", "ports": [], "plane_id": "0"}]
    assert parsed(table) == parsed(document(RANK_LIST))
    table["status"] = "initializing"
    assert "is not finished" in faults_of(table)["status"]


def test_an_address_of_a_device_may_be_empty_on_one_server() -> None:
    table = document("hccl_2p_01_10.20.30.41.json")
    for device in table["server_list"][0]["device"]:
        device["device_ip"] = ""
    (server,) = parsed(table).servers
    assert [one.device_ip for one in server.devices] == [None, None]
    several = document("hccl_2s_16p.json")
    several["server_list"][1]["device"][0]["device_ip"] = ""
    assert "expected an IP address" in faults_of(several)["server_list[1].device[0].device_ip"]
