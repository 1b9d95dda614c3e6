"""Models that another host sends: fetched once, resumed, checked, and kept as the cache allows."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import msgspec
import pytest
from transfers import OfferingEnd, local_file

from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.comm.transfer.messages import Chunk, Offer, OfferedFile, ToHost, Want
from rankmesh.comm.transfer.model_files import LocalFile
from rankmesh.comm.transport.message_stream import ChannelClosed
from rankmesh.worker.cache import received_model
from rankmesh.worker.cache.received_model import ReceivedModel
from rankmesh.worker.cache.store import CacheStore
from rankmesh.worker.cache.verification import verify

pytestmark = pytest.mark.pure
_LIMIT = 64 << 20
CHUNK = 4096


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_model, "CHUNK", CHUNK)


def store_in(folder: Path, limit: int = _LIMIT) -> CacheStore:
    return CacheStore(folder / "cache", limit)


def offered(folder: Path, contents: dict[str, bytes]) -> list[LocalFile]:
    files = []
    for number, (name, data) in enumerate(contents.items()):
        (folder / f"source{number}").write_bytes(data)
        files.append(local_file(folder / f"source{number}", name))
    return files


def received(end: OfferingEnd, store: CacheStore) -> ReceivedModel:
    with end.connected() as host:
        return ReceivedModel(end.offer.message, store, host.send, host.receive)


def contents(model: ReceivedModel) -> dict[str, bytes]:
    found = (path for path in model.folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(model.folder)): path.read_bytes()
        for path in found
        if path.name != "manifest.json"
    }


def test_files_arrive_under_their_names_and_private(tmp_path: Path) -> None:
    wanted = {
        "bert_rank0.mindir": os.urandom(2 * CHUNK + 5),
        "rank_1/data/data_0": os.urandom(10 * CHUNK),
        "empty": b"",
    }
    told: list[tuple[str, int, int]] = []
    end = OfferingEnd(offered(tmp_path, wanted), told=lambda *one: told.append(one))
    model = received(end, store_in(tmp_path))
    assert contents(model) == wanted
    assert model.pattern == f"{model.folder}/bert_rank{{rank}}.mindir"
    assert model.fetched == end.offer.message.size == 12 * CHUNK + 5
    assert told[-1] == ("bert", model.fetched, model.fetched) and told == sorted(told)
    assert model.folder.stat().st_mode & 0o077 == 0
    for path in (tmp_path / "cache" / "received").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    model.close()


def test_a_model_is_fetched_once(tmp_path: Path) -> None:
    files = offered(tmp_path, {"a": b"weights", "b": b"weights"})
    first = OfferingEnd(files)
    received(first, store_in(tmp_path)).close()
    assert len(first.wants) == 1  # equal files too
    again = OfferingEnd(files)
    assert received(again, store_in(tmp_path)).fetched == 0
    assert again.wants == []


def test_another_model_takes_the_files_that_are_there(tmp_path: Path) -> None:
    shared, store = os.urandom(CHUNK), store_in(tmp_path)
    received(OfferingEnd(offered(tmp_path, {"data": shared, "rank0": b"0"})), store).close()
    end = OfferingEnd(offered(tmp_path, {"weights/data": shared, "rank1": b"1"}))
    model = received(end, store)
    assert contents(model) == {"weights/data": shared, "rank1": b"1"}
    assert model.fetched == 1


def test_two_agents_of_a_host_fetch_once(tmp_path: Path) -> None:
    end = OfferingEnd(offered(tmp_path, {"a": os.urandom(9 * CHUNK), "b": b"b"}))
    models: list[ReceivedModel] = []

    def receive() -> None:
        models.append(received(end, store_in(tmp_path)))

    threads = [threading.Thread(target=receive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert models[0].folder == models[1].folder
    assert len(end.wants) == 10 == len(set(end.wants))


def test_a_cut_transfer_goes_on_where_it_was(tmp_path: Path) -> None:
    data, store = {"a": os.urandom(3 * CHUNK), "b": os.urandom(7 * CHUNK + 1)}, store_in(tmp_path)
    files = offered(tmp_path, data)
    with pytest.raises(ChannelClosed):
        received(OfferingEnd(files, replies=6), store)
    assert store.entries() == [] and list((tmp_path / "cache" / "entries").iterdir()) == []
    end = OfferingEnd(files)
    model = received(end, store)
    assert contents(model) == data
    assert end.wants[0] == Want(files[1].file.digest, 3 * CHUNK, CHUNK)
    assert model.fetched == 4 * CHUNK + 1
    assert [path.suffix for path in (tmp_path / "cache" / "received").iterdir()] == ["", ""]


def test_a_part_that_was_damaged_is_fetched_anew(tmp_path: Path) -> None:
    files, store = offered(tmp_path, {"a": os.urandom(3 * CHUNK)}), store_in(tmp_path)
    with pytest.raises(ChannelClosed):
        received(OfferingEnd(files, replies=2), store)
    (part,) = (tmp_path / "cache" / "received").iterdir()
    with part.open("r+b") as file:
        file.write(b"damage")
    model = received(OfferingEnd(files), store)
    assert contents(model) == {"a": (tmp_path / "source0").read_bytes()}
    assert model.fetched == 4 * CHUNK


def test_other_bytes_than_were_offered_are_refused_and_not_kept(tmp_path: Path) -> None:
    (one,) = offered(tmp_path, {"a": b"weights"})
    file = msgspec.structs.replace(one.file, digest="0" * 64)
    with pytest.raises(ModelError, match="a: what was sent does not have the digest"):
        received(OfferingEnd([LocalFile(one.stamp, file)]), store_in(tmp_path))
    assert list((tmp_path / "cache" / "received").iterdir()) == []
    assert store_in(tmp_path).entries() == []


def test_a_file_that_changed_after_its_offer_is_withheld(tmp_path: Path) -> None:
    files = offered(tmp_path, {"a": b"weights"})
    (tmp_path / "source0").write_bytes(b"longer weights")
    with pytest.raises(ModelError, match="a is not sent: .*source0: changed after it was offered"):
        received(OfferingEnd(files), store_in(tmp_path))
    (tmp_path / "source0").unlink()
    with pytest.raises(ModelError, match="source0: cannot be read: No such file"):
        received(OfferingEnd(files), store_in(tmp_path))


def test_only_offered_files_are_sent(tmp_path: Path) -> None:
    (one,) = offered(tmp_path, {"a": b"weights"})
    end = OfferingEnd([one])
    with end.connected() as host:
        host.send(Want("1" * 64, 0, 5))
        assert "no file of this digest was offered" in host.receive().text  # type: ignore[union-attr]
        host.send(Want(one.file.digest, 5, 5))
        assert "changed" in host.receive().text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name",
    ["../a", "/etc/passwd", "a/../../b", "a//b", ".", "a\0b", "a\\b", "x" * 256, "manifest.json"],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    (one,) = offered(tmp_path, {"a": b"weights"})
    file = msgspec.structs.replace(one.file, name=name)
    end = OfferingEnd([LocalFile(one.stamp, file)])
    with pytest.raises(ModelError, match="expected a name inside the model's folder"):
        received(end, store_in(tmp_path))
    assert end.wants == []


def test_names_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="bert: a name is offered twice"):
        twice = offered(tmp_path, {"a": b"0"}) + offered(tmp_path, {"a": b"1"})
        received(OfferingEnd(twice), store_in(tmp_path))
    with pytest.raises(UsageError, match="bert: cannot be kept in the model cache .*File exists"):
        received(OfferingEnd(offered(tmp_path, {"a": b"0", "a/b": b"1"})), store_in(tmp_path))


def test_what_was_not_wanted_is_refused(tmp_path: Path) -> None:
    (one,) = offered(tmp_path, {"a": b"weights"})
    answers: list[ToHost] = [
        Chunk(one.file.digest, 0, b"longer weights"),
        Chunk(one.file.digest, 1, b"weights"),
        Chunk("1" * 64, 0, b"weights"),
        Offer("bert", "a", (one.file,)),
    ]
    for answer in answers:
        with pytest.raises(ModelError, match="something else was sent"):
            ReceivedModel(
                Offer("bert", "a", (one.file,)),
                store_in(tmp_path),
                lambda want: None,
                lambda answer=answer: answer,  # type: ignore[misc]
            )


def test_a_model_larger_than_the_cache_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    end = OfferingEnd(offered(tmp_path, {"a": bytes(2 << 20)}))
    with pytest.raises(UsageError, match=r"bert: has 2 MiB, and the model cache .* 1 MiB: set"):
        received(end, store_in(tmp_path, 1 << 20))
    assert end.wants == []


def test_a_disk_without_room_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    huge = Offer("bert", "a", (OfferedFile("a", 1 << 50, "1" * 64),))
    with pytest.raises(UsageError, match="bert: has 1073741824 MiB, and [0-9]+ MiB are free"):
        ReceivedModel(huge, store_in(tmp_path, 1 << 51), lambda want: None, lambda: huge)


def test_a_disk_that_fills_is_told_and_what_came_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = offered(tmp_path, {"a": os.urandom(3 * CHUNK)}), store_in(tmp_path)
    write = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if offset >= 2 * CHUNK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(UsageError, match="are free for the model cache .* are kept for"):
            received(OfferingEnd(files), store)
    assert received(OfferingEnd(files), store).fetched == CHUNK


def test_files_in_use_are_not_evicted_and_others_are(tmp_path: Path) -> None:
    store = store_in(tmp_path, 3 * CHUNK)
    models = [
        received(OfferingEnd(offered(tmp_path, {name: os.urandom(CHUNK)})), store) for name in "abc"
    ]
    models[1].close()
    received(OfferingEnd(offered(tmp_path, {"d": bytes(2 * CHUNK)})), store)
    assert [model.folder.exists() for model in models] == [True, False, True]
    assert len(list((tmp_path / "cache" / "received").iterdir())) == 3
    models[0].close()
    assert store.clear() == 1  # the others are held
    assert len(list((tmp_path / "cache" / "received").iterdir())) == 2


def test_parts_that_wait_too_long_are_removed(tmp_path: Path) -> None:
    files, store = offered(tmp_path, {"a": os.urandom(3 * CHUNK)}), store_in(tmp_path)
    with pytest.raises(ChannelClosed):
        received(OfferingEnd(files, replies=2), store)
    store.sweep()
    (part,) = (tmp_path / "cache" / "received").iterdir()
    os.utime(part, (0, 0))
    store.sweep()
    assert not part.exists()


def test_a_damaged_file_is_not_used_for_another_model(tmp_path: Path) -> None:
    data, store = os.urandom(CHUNK), store_in(tmp_path)
    model = received(OfferingEnd(offered(tmp_path, {"a": data})), store)
    with (model.folder / "a").open("r+b") as file:
        file.write(b"damage")
    again = received(OfferingEnd(offered(tmp_path, {"b": data})), store)
    assert contents(again) == {"b": data} and again.fetched == CHUNK
    model.close()
    assert [finding.damaged for finding in verify(store) if finding.damaged] == ["a"]


def test_the_host_has_no_more_wants_under_way_than_it_may(tmp_path: Path) -> None:
    files = offered(tmp_path, {"a": os.urandom(20 * CHUNK)})
    end, sent, most = OfferingEnd(files), 0, 0
    with end.connected() as host:

        def send(want: Want) -> None:
            nonlocal sent, most
            sent += 1
            most = max(most, sent)
            host.send(want)

        def receive() -> ToHost:
            nonlocal sent
            sent -= 1
            return host.receive()

        ReceivedModel(end.offer.message, store_in(tmp_path), send, receive).close()
    assert (sent, most) == (0, 8)


def test_a_lie_about_a_size_changes_no_file_of_another_model(tmp_path: Path) -> None:
    files, store = offered(tmp_path, {"a": b"weights", "b": b"graph"}), store_in(tmp_path)
    lie = msgspec.structs.replace(files[0].file, name="x", size=3)
    end = OfferingEnd(files)

    with end.connected() as host:

        def receive() -> ToHost:
            answer = host.receive()
            if isinstance(answer, Chunk) and answer.data == b"graph":  # the weights are placed
                received(OfferingEnd([LocalFile(files[0].stamp, lie)]), store_in(tmp_path)).close()
            return answer

        model = ReceivedModel(end.offer.message, store, host.send, receive)
    assert contents(model) == {"a": b"weights", "b": b"graph"}
