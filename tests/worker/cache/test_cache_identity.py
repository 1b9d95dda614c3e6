"""A model's identity: known without reading it again, and never after a change."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from rankmesh.comm.host.stamp import Files, Stamp
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.identity import ModelIdentities

pytestmark = pytest.mark.pure

_LONG_AGO_NS = 10**18
_TICKS_NS = 20_000_000  # of any file system's clock


@pytest.fixture
def settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that tests write settle after some ticks instead of two seconds."""
    monkeypatch.setattr(identity, "SETTLED_NS", _TICKS_NS)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A graph and its data file, not touched for a long time by the times that a user may set."""
    for name, content in (("net_graph.mindir", b"graph"), ("data_0", bytes(1000))):
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
    return [str(tmp_path / "net_graph.mindir"), str(tmp_path / "data_0")]


def stamped(files: list[str]) -> Files:
    """The files of a model as a reader saw them: its own, then the others by their names."""
    return {os.path.basename(path) if path != files[0] else "": Stamp.of(path) for path in files}


@pytest.mark.usefixtures("settle_soon")
def test_what_was_learnt_is_known(tmp_path: Path, files: list[str]) -> None:
    identities = ModelIdentities(tmp_path)
    assert identities.known(files[0]) is None
    learnt = identities.learn(stamped(files))
    assert learnt is not None
    assert identities.known(files[0]) == learnt


@pytest.mark.usefixtures("settle_soon")
@pytest.mark.parametrize("changed", [0, 1])
def test_a_change_of_any_file_is_noticed(tmp_path: Path, files: list[str], changed: int) -> None:
    """Even one that keeps size and modification time: the kernel's own time of change cannot be
    set.
    """
    identities = ModelIdentities(tmp_path)
    before = identities.learn(stamped(files))
    content = bytearray(Path(files[changed]).read_bytes())
    content[0] ^= 1
    Path(files[changed]).write_bytes(content)
    os.utime(files[changed], ns=(_LONG_AGO_NS, _LONG_AGO_NS))
    assert identities.known(files[0]) is None
    after = identities.learn(stamped(files))
    assert before is not None and after is not None
    assert before.digest != after.digest


@pytest.mark.usefixtures("settle_soon")
def test_a_file_that_is_gone_is_not_known(tmp_path: Path, files: list[str]) -> None:
    identities = ModelIdentities(tmp_path)
    identities.learn(stamped(files))
    os.unlink(files[1])
    assert identities.known(files[0]) is None


def test_a_fresh_file_is_hashed_only_once_it_has_settled(tmp_path: Path, files: list[str]) -> None:
    Path(files[1]).write_bytes(b"new")
    learnt = ModelIdentities(tmp_path).learn(stamped(files))
    assert learnt is not None
    assert time.time_ns() - learnt.files["data_0"].changed >= 2_000_000_000


def test_threads_may_learn_one_model_at_once(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    identities, meeting = ModelIdentities(tmp_path), Barrier(4, timeout=30)
    write = Path.write_bytes

    def together(path: Path, content: bytes) -> int:
        written = write(path, content)
        meeting.wait()  # now each has its own file to put in place
        return written

    monkeypatch.setattr(Path, "write_bytes", together)
    with ThreadPoolExecutor(4) as pool:
        learnt = list(pool.map(identities.learn, [stamped(files)] * 4))
    assert learnt == [identities.known(files[0])] * 4


@pytest.mark.usefixtures("settle_soon")
def test_bytes_moved_from_one_file_to_the_other_make_another_model(tmp_path: Path) -> None:
    digests = []
    for first, second in ((b"ab", b"c"), (b"a", b"bc")):
        (tmp_path / "a").write_bytes(first)
        (tmp_path / "b").write_bytes(second)
        learnt = ModelIdentities(tmp_path).learn(
            stamped([str(tmp_path / "a"), str(tmp_path / "b")])
        )
        assert learnt is not None
        digests.append(learnt.digest)
    assert digests[0] != digests[1]
