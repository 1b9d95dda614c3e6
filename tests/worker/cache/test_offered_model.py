"""Offered models: shared files are used in place, others are sent where there is a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from shards import summing
from transfers import OfferingEnd

from rankmesh.comm.errors import UsageError
from rankmesh.comm.transfer.messages import Offer
from rankmesh.comm.transfer.model_files import ListRequest
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.model_listing import listed
from rankmesh.worker.cache.offered_model import open_offered

pytestmark = pytest.mark.pure


def offering(folder: Path) -> OfferingEnd:
    return OfferingEnd(list(listed(ListRequest(summing(folder), 2, (0, 1), "off")).files))


@pytest.mark.parametrize("cache", ["cache", "off"])
def test_shared_files_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", cache if cache == "off" else str(tmp_path / cache))
    end = offering(tmp_path)
    with end.connected() as host:
        model = open_offered(end.offer.message, str(tmp_path), host.send, host.receive)
    assert (model.pattern, model.fetched) == (f"{tmp_path}/{end.offer.message.pattern}", 0)
    assert end.wants == []


def test_other_bytes_at_the_path_are_replaced_by_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    end = offering(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in end.offer.message.files:
        (elsewhere / file.name).write_bytes(bytes(file.size))
    with end.connected() as host:
        model = open_offered(end.offer.message, str(elsewhere), host.send, host.receive)
    assert model.fetched == end.offer.message.size
    assert model.pattern.startswith(f"{tmp_path}/cache/entries/")
    model.close()


def test_without_a_cache_nothing_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_CACHE", "off")
    offer: Offer = offering(tmp_path).offer.message
    with pytest.raises(UsageError, match="bert: /nowhere does not have its files on this host"):
        open_offered(offer, "/nowhere", lambda want: None, lambda: offer)
