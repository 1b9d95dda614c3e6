import json
import re
from pathlib import Path

import pytest
from documents import changed as changed_in
from hypothesis import given
from hypothesis import strategies as st

import rankmesh.rank_tables
from rankmesh.rank_tables.fault import RankTableFault
from rankmesh.rank_tables.readers import MAX_BYTES
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure

SHIPPED = sorted(Path(rankmesh.rank_tables.__file__).parent.glob("*.json"))


def document() -> dict:
    """Two servers with two devices each, as the usual tools write them."""
    return {
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "10.20.30.41",
                "host_nic_ip": "reserve",
                "device": [
                    {"device_id": "0", "device_ip": "192.98.30.20", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.99.30.20", "rank_id": "1"},
                ],
            },
            {
                "server_id": "node_1",
                "host_ip": "10.20.30.42",
                "device": [{"device_id": 0, "rank_id": 2}, {"device_id": 1, "rank_id": 3}],
            },
        ],
        "status": "completed",
    }


def parsed(value: object) -> RankTable:
    return RankTable.parse(json.dumps(value).encode(), "table.json")


def test_a_table_says_who_runs_where():
    table = parsed(document())
    assert table.world_size == 4
    assert [server.server_id for server in table.servers] == ["10.20.30.41", "node_1"]
    assert table.device_of(1) == Device(rank=1, device_id=1, device_ip="192.99.30.20")
    assert table.device_of(2) == Device(rank=2, device_id=0)
    assert table.server_of(3).host_ip == "10.20.30.42"
    assert table.server_of(3).ranks == (2, 3)
    with pytest.raises(RankTableFault, match="rank 4 is not in the table, which has ranks 0 to 3"):
        table.device_of(4)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_tables_are_right_and_survive_a_round_trip(path: Path):
    table = RankTable.read(path)
    assert RankTable.parse(table.to_json()) == table
    with_text_ids = json.loads(path.read_text(), parse_int=str)
    if with_text_ids.get("version") in ("1.0", "1.2"):
        assert json.loads(table.to_json()) == with_text_ids


def changed(place: str, value: object) -> dict:
    """The document with one place replaced (`...` removes it)."""
    return changed_in(document(), place, value)


SERVER, DEVICE = "server_list.1", "server_list.0.device.1"
FAULTS = [
    (
        "version",
        ...,
        r'is missing, expected one of "1.0", "1.2", "2.0" \(only tables with a group_list',
    ),
    ("version", "1.1", r"got '1.1', expected one of \"1.0\", \"1.2\", \"2.0\""),
    ("version", 1.0, "got 1.0, expected one of"),
    ("version", ["1.0"], "got a list, expected one of"),
    ("status", ..., "is missing"),
    ("status", "initializing", "got 'initializing': the table is not finished"),
    ("status", "failed", "got 'failed', expected 'completed'"),
    ("server_count", "3", r"got 3, but server_list has 2 element\(s\)"),
    ("server_count", "two", "got 'two', expected an integer"),
    ("server_list", ..., "is missing"),
    ("server_list", {}, "got an object, expected a list"),
    ("server_list.0", None, "got null, expected an object"),
    (
        f"{SERVER}.server_id",
        "10.20.30.41",
        r"'10.20.30.41' is repeated; server_list\[0\].server_id has it",
    ),
    (
        f"{SERVER}.server_id",
        "10.20.30.400",
        "got '10.20.30.400', expected an IP address or a host name",
    ),
    (f"{SERVER}.server_id", "", "got '', expected an IP address or a host name"),
    (f"{SERVER}.server_id", "a b", "got 'a b', expected an IP address or a host name"),
    (f"{SERVER}.server_id", "x" * 65, "got 'x+', expected .*at most 64"),
    (f"{SERVER}.server_id", 7, "got 7, expected a string"),
    (f"{SERVER}.host_ip", "node_1", "got 'node_1', expected an IP address"),
    (f"{SERVER}.device", ..., "is missing"),
    (f"{SERVER}.device", [], "has 0 elements, expected at least 1"),
    (f"{DEVICE}.device_ip", "192.99.30.999", "got '192.99.30.999', expected an IP address"),
    (f"{DEVICE}.device_ip", "fe80::1%../x", "got .*, expected an IP address"),
    (f"{DEVICE}.device_ip", "", "got '', expected an IP address"),
    (f"{DEVICE}.device_id", "0", r"0 is repeated; server_list\[0\].device\[0\].device_id has it"),
    (f"{DEVICE}.device_id", ..., "is missing"),
    (f"{DEVICE}.device_id", 65536, "got 65536, expected an integer from 0 to 65535"),
    (f"{DEVICE}.rank_id", ..., "is missing"),
    (f"{DEVICE}.rank_id", "0", r"0 is repeated; server_list\[0\].device\[0\].rank_id has it"),
    (f"{DEVICE}.rank_id", "9", r"got 9, expected at most 3 .* rank 1 is missing"),
    (f"{DEVICE}.rank_id", "-1", "got '-1', expected an integer of 0 or more"),
    (f"{DEVICE}.rank_id", "1.0", "got '1.0', expected an integer"),
    (f"{DEVICE}.rank_id", "\u0661", "got .*, expected an integer"),
    (f"{DEVICE}.rank_id", 1.0, "got 1.0, expected an integer"),
    (f"{DEVICE}.rank_id", True, "got true, expected an integer"),
    (f"{DEVICE}.rank_id", None, "got null, expected an integer"),
    (f"{DEVICE}.rank_id", 10**400, r"got 10+\.\.\., expected an integer"),
    (f"{DEVICE}.rank_id", "9" * 5000, r"got '9+\.\.\., expected an integer"),
]


@pytest.mark.parametrize(("place", "value", "text"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_every_fault_is_named_by_its_path(place: str, value: object, text: str):
    with pytest.raises(RankTableFault) as caught:
        parsed(changed(place, value))
    path = re.sub(r"\.(\d+)", r"[\1]", place)
    assert re.match(f"table.json: {re.escape(path)}: {text}", str(caught.value)), caught.value
    assert caught.value.path == path and len(str(caught.value)) < 300


def test_ranks_of_one_server_must_follow_one_another():
    value = changed("server_list.0.device.1.rank_id", "2")
    value["server_list"][1]["device"][0]["rank_id"] = "1"
    with pytest.raises(RankTableFault, match=r"server_list\[0\].device: has rank 0 but not rank 1"):
        parsed(value)


def test_a_table_made_in_code_is_checked_too():
    with pytest.raises(RankTableFault, match=r"server_list\[0\].device\[0\].rank_id: got 3"):
        RankTable((Server("a", (Device(rank=3, device_id=0),)),))
    with pytest.raises(RankTableFault, match="server_list: has 0 elements"):
        RankTable(())


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b'"\\ud800"', b"nul"]
)
def test_what_is_not_json_is_said_to_be(data: bytes):
    with pytest.raises(RankTableFault, match="^rank table: "):
        RankTable.parse(data)


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    with pytest.raises(RankTableFault, match="none.json: cannot be read: No such file"):
        RankTable.read(tmp_path / "none.json")
    with pytest.raises(RankTableFault, match="cannot be read: Is a directory"):
        RankTable.read(tmp_path)
    with pytest.raises(RankTableFault, match="cannot be read"):
        RankTable.read("a\0b")
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(RankTableFault, match="big.json: is larger than 32 MiB"):
        RankTable.read(big)


ids = st.integers(-3, 70_000) | st.integers(0, 3).map(str) | st.text(max_size=4)
addresses = st.ip_addresses().map(str) | st.text(max_size=6)
devices = st.fixed_dictionaries(
    {}, optional={"device_id": ids, "rank_id": ids, "device_ip": addresses}
)
servers = st.fixed_dictionaries(
    {},
    optional={
        "server_id": addresses,
        "host_ip": addresses,
        "device": st.lists(devices, max_size=3),
    },
)
tables = st.fixed_dictionaries(
    {"version": st.just("1.0"), "status": st.just("completed")},
    optional={"server_count": ids, "server_list": st.lists(servers, max_size=3)},
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
)


def accepted_or_refused(data: bytes) -> None:
    try:
        table = RankTable.parse(data)
    except RankTableFault:
        return
    assert RankTable.parse(table.to_json()) == table


@given(st.binary(max_size=200))
def test_bytes_give_a_table_or_a_fault(data: bytes):
    accepted_or_refused(data)


@given(tables | anything)
def test_json_gives_a_table_or_a_fault(value: object):
    accepted_or_refused(json.dumps(value).encode())


@given(st.data())
def test_a_damaged_table_gives_a_table_or_a_fault(data: st.DataObject):
    text = bytearray(json.dumps(document()).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    accepted_or_refused(bytes(text))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_round_trip_of_tables_made_in_code(sizes: list[int]):
    rank = iter(range(sum(sizes)))
    table = RankTable(
        tuple(
            Server(
                f"host-{i}",
                tuple(Device(next(rank), d, f"192.0.2.{d}") for d in range(size)),
                "198.51.100.7",
            )
            for i, size in enumerate(sizes)
        )
    )
    assert RankTable.parse(table.to_json()) == table
