"""What `rankmesh update-weights` asks of owners; tests/worker/weights/test_sharing.py has what they
do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.messages import Update
from rankmesh.comm.sharing.whitelist import Whitelist
from rankmesh.launch.commands.update_weights import parse_layout, update_process

pytestmark = pytest.mark.pure


@pytest.fixture
def asked() -> Iterator[list[tuple[Update, bytes]]]:
    """What this process, as the owner of rank 3, was asked for: the request, and what is in the
    file.
    """
    found: list[tuple[Update, bytes]] = []
    broker = Broker(
        Whitelist(),
        "model",
        "cpu",
        [],
        lambda fd, request: str(found.append((request, os.pread(fd, 9, 0)))),
        rank=3,
    )
    broker.start()
    yield found
    broker.close()


def test_the_rank_is_the_owners(asked: list[tuple[Update, bytes]], tmp_path: Path) -> None:
    for rank in (2, 3):
        (tmp_path / f"rank{rank}.npz").write_bytes(b"of rank %d" % rank)
    update_process(os.getpid(), str(tmp_path / "rank{rank}.npz"), {"*.weight": -1}, True)
    assert asked == [(Update(str(tmp_path / "rank3.npz"), True, {"*.weight": -1}), b"of rank 3")]


def test_a_file_that_is_missing_for_the_rank(
    asked: list[tuple[Update, bytes]], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"rank3.npz: cannot be read: No such file"):
        update_process(os.getpid(), str(tmp_path / "rank{rank}.npz"), {}, False)
    assert not asked


def test_layouts() -> None:
    assert parse_layout([]) == {}
    assert parse_layout(["*.fc1.weight=0", "a=b=-1"]) == {"*.fc1.weight": 0, "a=b": -1}


@pytest.mark.parametrize("entry", ["", "a", "a=", "=1", "a=x", "a=1.5", "a=64", "a=-65"])
def test_layouts_that_are_none(entry: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=AXIS"):
        parse_layout([entry])
