"""The files that ranks of other hosts need: shards and their weights, with digests."""

from __future__ import annotations

import os
import shutil
from hashlib import blake2b
from pathlib import Path

import pytest
from encrypted import KEY, encrypt_file
from mindir_models import file_of
from shards import summing
from transfers import OfferingEnd

from rankmesh.comm.errors import ModelError
from rankmesh.comm.transfer.messages import Offer
from rankmesh.comm.transfer.model_files import ListedFiles, ListRequest, list_in_child
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.file_digests import FileDigests
from rankmesh.worker.cache.model_listing import listed
from rankmesh.worker.cache.received_model import ReceivedModel
from rankmesh.worker.cache.store import CacheStore


@pytest.fixture(autouse=True)
def _settled_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "digests"))


def names(found: ListedFiles) -> list[str]:
    for one in found.files:
        data = Path(one.stamp.path).read_bytes()
        assert one.file.digest == blake2b(data, digest_size=32).hexdigest()
        assert one.file.size == len(data)
    return [one.file.name for one in found.files]


@pytest.mark.pure
def test_a_host_gets_the_shards_of_its_ranks(tmp_path: Path) -> None:
    pattern = summing(tmp_path, 4)
    found = listed(ListRequest(pattern, 4, (1, 3)))
    assert names(found) == [Path(pattern.format(rank=rank)).name for rank in (1, 3)]
    assert found.pattern == Path(pattern).name


@pytest.mark.pure
def test_ranks_with_folders_of_their_own_and_split_models(tmp_path: Path) -> None:
    for rank in range(2):
        shutil.copytree(Path(file_of("split_mlp")).parent, tmp_path / f"rank_{rank}")
    found = listed(ListRequest(f"{tmp_path}/rank_{{rank}}/split_mlp.mindir", 2, (0, 1)))
    assert found.pattern == "rank_{rank}/split_mlp.mindir"
    assert names(found) == [
        f"rank_{rank}/{name}"
        for rank in range(2)
        for name in ("split_mlp_graph.mindir", "split_mlp_variables/data_0")
    ]


@pytest.mark.pure
def test_a_file_for_all_ranks_is_listed_once(tmp_path: Path) -> None:
    path = summing(tmp_path).format(rank=0)
    assert names(listed(ListRequest(path, 1, (0, 1)))) == [Path(path).name]


@pytest.mark.pure
def test_an_encrypted_model_stays_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Path(file_of("mlp"))
    path = encrypt_file(plain, tmp_path / "mlp.mindir")
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    found = listed(ListRequest(str(path), 1, (0,)))
    end, store = OfferingEnd(list(found.files)), CacheStore(tmp_path / "cache", 1 << 20)
    with end.connected() as host:
        model = ReceivedModel(end.offer.message, store, host.send, host.receive)
    assert (model.folder / "mlp.mindir").read_bytes() == path.read_bytes() != plain.read_bytes()


@pytest.mark.pure
def test_files_that_cannot_be_sent_or_read(tmp_path: Path) -> None:
    shutil.copy(summing(tmp_path).format(rank=0), tmp_path / "new\nline.onnx")
    with pytest.raises(ModelError, match="cannot be sent to other hosts"):
        listed(ListRequest(f"{tmp_path}/new\nline.onnx", 1, (0,)))
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="is a text that begins with 'no model'"):
        listed(ListRequest(f"{tmp_path}/m.onnx", 1, (0,)))


@pytest.mark.pure
def test_a_host_that_sees_the_same_files_needs_none(tmp_path: Path) -> None:
    pattern = summing(tmp_path)
    found = listed(ListRequest(pattern, 2, (0, 1)))
    offer = Offer("m", found.pattern, tuple(one.file for one in found.files))
    digests = FileDigests(CacheStore(tmp_path / "cache", 1 << 20))
    assert digests.match(offer, str(tmp_path))
    assert not digests.match(offer, str(tmp_path / "elsewhere"))
    path = Path(pattern.format(rank=1))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert not digests.match(offer, str(tmp_path))


@pytest.mark.pure
def test_digests_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = summing(tmp_path).format(rank=0)
    first = FileDigests(CacheStore(tmp_path / "cache", 1 << 20)).of(path)
    monkeypatch.setattr("rankmesh.worker.cache.file_digests.digest_of", lambda path: "unasked")
    assert FileDigests(CacheStore(tmp_path / "cache", 1 << 20)).of(path) == first
    os.utime(path)
    assert FileDigests(CacheStore(tmp_path / "cache", 1 << 20)).of(path) == "unasked"


def test_a_child_lists_the_files(tmp_path: Path) -> None:
    request = ListRequest(summing(tmp_path), 2, (0, 1), "off")
    assert list_in_child(request) == listed(request)
