"""Regions of clients: which shared memory may be registered, and what happens where it changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rankmesh.comm.errors import InputError, UsageError
from rankmesh.comm.host.aligned_mapping import LARGE_PAGE
from rankmesh.comm.request_memory.tensor_arena import FilePlace
from rankmesh.orchestrator.server.faults import KnownRegion, UnknownRegion, UnsupportedCall
from rankmesh.orchestrator.server.shared_memory.client_regions import MOST_REGIONS, ClientRegions
from rankmesh.orchestrator.server.shared_memory.kernel_mapping import (
    Forbidden,
    KernelMapping,
)
from rankmesh.orchestrator.server.shared_memory.shared_tensor import SharedTensor

pytestmark = pytest.mark.pure

PREFIX = f"/client-memory{os.getpid()}-"
FOLDER = Path("/dev/shm")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A client's memory of 100 bytes."""
    path = FOLDER / f"{PREFIX[1:]}a"
    path.write_bytes(bytes(range(100)))
    yield path
    with suppress(FileNotFoundError):
        path.unlink()


@pytest.fixture
def regions() -> ClientRegions:
    return ClientRegions([PREFIX])


def place(regions: ClientRegions, region: object, offset: object, size: object) -> SharedTensor:
    found = regions.tensor(region, offset, size)
    assert found is not None
    return found


def test_a_region_is_read_and_written_in_place(memory: Path, regions: ClientRegions) -> None:
    regions.register("in", f"{PREFIX}a", 10, 50)
    regions.register("out", f"{PREFIX[1:]}a", 0, 100)  # without the slash, as some clients have it
    found = bytearray(4)
    place(regions, "in", 2, 4).read(memoryview(found))
    assert list(found) == [12, 13, 14, 15]
    place(regions, "out", 96, 4).write(memoryview(b"abcd"))
    assert memory.read_bytes()[94:] == b"^_abcd"
    assert [(one.name, one.offset, one.size) for one in regions.listed()] == [
        ("in", 10, 50),
        ("out", 0, 100),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_large_memory_has_the_same_bytes_and_size_in_large_pages(
    memory: Path, regions: ClientRegions, whole: bool
) -> None:
    size = 3 * LARGE_PAGE + 100
    written = os.urandom(size)
    if whole:
        memory.write_bytes(written)
    else:
        os.truncate(memory, size)
    before = memory.stat()
    regions.register("a", f"{PREFIX}a", 0, size)
    found = bytearray(size)
    place(regions, "a", 0, size).read(memoryview(found))
    assert found == (written if whole else memory.read_bytes())
    after = memory.stat()
    assert (after.st_size, after.st_blocks) == (before.st_size, before.st_blocks)
    place(regions, "a", 0, size).write(memoryview(written))
    assert memory.read_bytes() == written


def test_a_region_is_forgotten_and_its_descriptor_closed(
    memory: Path, regions: ClientRegions
) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for name in ("a", "b", "c"):
        regions.register(name, f"{PREFIX}a", 0, 100)
    used = place(regions, "a", 0, 1)
    regions.unregister("a")
    used.read(memoryview(bytearray(1)))  # a request that still uses it
    del used
    regions.unregister("never known")
    assert [one.name for one in regions.listed()] == ["b", "c"]
    regions.unregister()
    assert regions.listed() == [] and set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(UnknownRegion, match="no region 'a'"):
        regions.tensor("a", None, 1)


@pytest.mark.parametrize("size", [40, 0])
def test_memory_that_a_client_shortens_ends_nothing(
    memory: Path, regions: ClientRegions, size: int
) -> None:
    regions.register("a", f"{PREFIX}a", 0, 100)
    found = place(regions, "a", 0, 100)
    os.truncate(memory, size)
    with pytest.raises(InputError, match="the region 'a' ends before"):
        found.read(memoryview(bytearray(100)))
    with pytest.raises(InputError, match="the region 'a' ends before"):
        found.write(memoryview(bytes(100)))
    assert memory.stat().st_size == size


def test_memory_that_is_shortened_during_large_copies_ends_nothing(
    memory: Path, regions: ClientRegions
) -> None:
    size = 2 * LARGE_PAGE
    memory.write_bytes(bytes(size))
    regions.register("a", f"{PREFIX}a", 0, size)
    found, ended = place(regions, "a", 0, size), threading.Event()
    source = os.memfd_create("source")
    os.write(source, bytes(size))

    def write_from(data: memoryview) -> None:
        found.write(data, source=FilePlace(source, 0))

    def change() -> None:
        while not ended.is_set():
            os.truncate(memory, 5000)
            os.truncate(memory, size)

    changing = threading.Thread(target=change)
    changing.start()
    for _ in range(100):
        for copy in (found.read, found.write, write_from):
            with suppress(InputError):
                copy(memoryview(bytearray(size)))
    ended.set()
    changing.join()
    os.close(source)
    assert memory.stat().st_size == size


def test_system_calls_fail_where_mapped_memory_is_gone(memory: Path) -> None:
    size = 2 * LARGE_PAGE
    memory.write_bytes(bytes(size))
    descriptor = os.open(memory, os.O_RDWR)
    mapping = KernelMapping(descriptor, size)
    os.close(descriptor)
    data = memoryview(b"a" * size)
    assert mapping.write(0, data) == size
    source = os.memfd_create("source")
    os.write(source, data)
    assert mapping.write_from(0, size, source, 0) == size
    os.truncate(memory, 4096)
    for write in (
        lambda at: mapping.write(at, data[at:]),
        lambda at: mapping.write_from(at, size - at, source, at),
    ):
        assert write(0) == 4096
        with pytest.raises(OSError, match="Bad address"):
            write(4096)
    assert memory.read_bytes() == data[:4096]
    os.close(source)


def test_large_memory_is_written_where_the_system_forbids_to_do_it_by_address(
    memory: Path, regions: ClientRegions, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = LARGE_PAGE + 100
    memory.write_bytes(bytes(size))
    regions.register("a", f"{PREFIX}a", 0, size)

    def write(self: KernelMapping, at: int, data: memoryview) -> int:
        raise Forbidden

    monkeypatch.setattr(KernelMapping, "write", write)
    written = os.urandom(size)
    place(regions, "a", 0, size).write(memoryview(written))
    assert memory.read_bytes() == written


@pytest.mark.parametrize(
    "key",
    [
        "/other",
        "",
        "/",
        "PREFIX../a",
        "/../PREFIXa",
        "PREFIX\0",
        "PREFIX" + "a" * 300,
        "/rankmesh-arena",
    ],
)
def test_keys_that_clients_may_not_use_are_refused(regions: ClientRegions, key: str) -> None:
    with pytest.raises(InputError, match="this key is none that clients may use"):
        regions.register("a", key.replace("PREFIX", PREFIX), 0, 4)


@pytest.mark.parametrize("kind", ["none", "link", "fifo", "folder", "foreign"])
def test_only_regular_memory_of_the_servers_user_is_opened(
    memory: Path, regions: ClientRegions, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FOLDER / f"{PREFIX[1:]}b"
    makers = {"link": path.symlink_to, "fifo": os.mkfifo, "folder": os.mkdir}
    if kind in makers:
        makers[kind](memory if kind == "link" else path)
    elif kind == "foreign":
        path.write_bytes(b"abcd")
        monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    before = set(os.listdir("/proc/self/fd"))
    try:
        with pytest.raises(InputError, match="no shared memory with this key that the server may"):
            regions.register("a", f"{PREFIX}b", 0, 4)
    finally:
        if kind == "folder":
            path.rmdir()
        elif kind != "none":
            path.unlink()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 101), (1, 100), (100, 1), (0, 0), (-1, 4), (0, -4), (1 << 62, 1 << 62)]
)
def test_registered_sizes_are_those_of_the_memory(
    memory: Path, regions: ClientRegions, offset: int, size: int
) -> None:
    with pytest.raises(InputError) as raised:
        regions.register("a", f"{PREFIX}a", offset, size)
    assert "100" not in str(raised.value)
    assert regions.listed() == []


@pytest.mark.parametrize(
    ("region", "offset", "size", "text"),
    [
        ("a", 0, 51, "beyond the end of the region 'a'"),
        ("a", 50, 1, "beyond the end"),
        ("a", None, None, "needs the parameters"),
        (None, None, 4, "needs the parameters"),
        (7, None, 4, "needs the parameters"),
        ("a", None, True, "needs the parameters"),
        ("a", -1, 4, "needs the parameters"),
        ("a", "0", 4, "needs the parameters"),
        ("a", 0, 1 << 64, "needs the parameters"),
    ],
)
def test_places_of_tensors_are_inside_of_their_region(
    memory: Path, regions: ClientRegions, region: object, offset: object, size: object, text: str
) -> None:
    regions.register("a", f"{PREFIX}a", 0, 50)
    with pytest.raises(InputError, match=text) as raised:
        regions.tensor(region, offset, size)
    assert "50" not in str(raised.value) and PREFIX not in str(raised.value)


def test_a_name_is_registered_once_and_regions_are_bounded(
    memory: Path, regions: ClientRegions
) -> None:
    for number in range(MOST_REGIONS):
        regions.register(str(number), f"{PREFIX}a", 0, 100)
    with pytest.raises(KnownRegion, match="'0' is registered already"):
        regions.register("0", f"{PREFIX}a", 0, 100)
    with pytest.raises(InputError, match=f"the server has {MOST_REGIONS} regions"):
        regions.register("more", f"{PREFIX}a", 0, 100)
    with pytest.raises(InputError, match="1 to 255 letters"):
        regions.register("n" * 256, f"{PREFIX}a", 0, 100)


def test_nothing_is_offered_without_a_prefix(memory: Path) -> None:
    none = ClientRegions()
    assert not none.offered and none.listed() == []
    with pytest.raises(UnsupportedCall, match="without --shared-memory-prefix"):
        none.register("a", f"{PREFIX}a", 0, 4)
    with pytest.raises(UnsupportedCall, match="without --shared-memory-prefix"):
        none.tensor("a", None, 4)
    assert none.tensor(None, None, None) is None


@pytest.mark.parametrize("prefix", ["", "/", "/a/b", "rankmesh-x", "/rankmesh"])
def test_a_prefix_leaves_the_server_its_own_names(prefix: str) -> None:
    with pytest.raises(UsageError, match="--shared-memory-prefix: got"):
        ClientRegions([prefix])
