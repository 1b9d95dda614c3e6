"""Whose the model cache is: what others could put there is not used."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mindir_models import fails, file_of, saved

from rankmesh import Context, Model, ModelType
from rankmesh.comm.errors import UsageError
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.cache import identity
from rankmesh.worker.cache.settings import configured_cache, served_cache, shown_store
from rankmesh.worker.cache.store import CacheStore

_STRANGER = 4321
_LIMIT = 1 << 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(identity, "SETTLED_NS", 20_000_000)
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(path: str | Path, **arguments: Any) -> Model:
    context, model = Context(), Model()
    context.cpu.thread_num = 1
    model.build_from_file(str(path), ModelType.MINDIR, context, **arguments)
    for thread in threading.enumerate():
        if thread.name == "rankmesh-model-cache":
            thread.join()
    return model


def written_by_a_stranger(path: Path, content: bytes) -> None:
    """Put a file in place as another user does, where we may become one."""
    other = {"user": _STRANGER, "group": _STRANGER, "extra_groups": []} if os.getuid() == 0 else {}
    subprocess.run(
        ["sh", "-c", 'cat > "$1.fresh" && mv -f "$1.fresh" "$1"', "sh", path],
        input=content,
        check=True,
        cwd="/",
        **other,
    )  # type: ignore[call-overload]


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that other users reach, with a cache in it."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o711)
        monkeypatch.setenv("RANKMESH_CACHE", f"{path}/cache")
        yield Path(path)


def test_an_identity_that_a_stranger_has_written_is_not_believed(reachable: Path) -> None:
    """It would say that one model is another one, and have that served in its place."""
    other, identities = reachable / "other.mindir", reachable / "cache" / "identities"
    proto = ModelProto.FromString(Path(file_of("mlp")).read_bytes())
    for parameter in proto.graph.parameter:
        parameter.raw_data = bytes(len(parameter.raw_data))
    other.write_bytes(proto.SerializeToString())
    build(other)
    (told,) = identities.iterdir()
    forged = msgspec.msgpack.decode(told.read_bytes())
    build(file_of("mlp"))
    (mine,) = (path for path in identities.iterdir() if path != told)
    for key in ("files", "stamps"):
        if key in forged:
            forged[key] = msgspec.msgpack.decode(mine.read_bytes())[key]
    identities.parent.chmod(0o711)
    identities.chmod(0o777)
    written_by_a_stranger(mine, msgspec.msgpack.encode(forged))
    fails(RuntimeError, "identities must belong to user", build, file_of("mlp"))
    identities.chmod(0o700)
    if os.getuid() == 0:  # the file is still the stranger's
        inputs, outputs = saved("mlp")
        (got,) = build(file_of("mlp")).predict(inputs)
        np.testing.assert_allclose(got.get_data_to_numpy(), outputs[0], rtol=1e-5)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_an_entry_that_a_stranger_has_put_there_is_not_used(cache: Path) -> None:
    """While the folder was open: they still could change what is in it."""
    build(file_of("mlp"))
    (entry,) = CacheStore(cache, _LIMIT).entries()
    os.chown(entry.path, _STRANGER, -1)
    assert build(file_of("mlp")).get_model_info("weights_mode") == "private"
    (entry,) = CacheStore(cache, _LIMIT).entries()
    assert entry.path.stat().st_uid == os.getuid()
    assert build(file_of("mlp")).get_model_info("weights_mode") == "packed"


@pytest.mark.parametrize("name", ["entries", "identities"])
def test_each_folder_of_the_cache_must_be_the_users_alone(cache: Path, name: str) -> None:
    CacheStore(cache, _LIMIT)
    (cache / name).chmod(0o770)
    fails(
        UsageError, f"the model cache {cache / name} must belong to user", CacheStore, cache, _LIMIT
    )


def test_a_cache_below_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, cache: Path
) -> None:
    """They could rename it and put entries of theirs in its place, which would be executed."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    section = {"ascend_context": {"model_cache_dir": str(tmp_path / "open" / "cache")}}
    fails(
        RuntimeError,
        f"others than user {os.getuid()} may replace what is in {tmp_path / 'open'} (",
        build,
        file_of("mlp"),
        config_dict=section,
    )
    assert list((tmp_path / "open").iterdir()) == []


def test_an_own_cache_that_would_not_be_safe_is_none_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RANKMESH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    packed = {"ascend_context": {"weights_mode": "packed"}}
    assert build(file_of("mlp"), config_dict=packed).get_model_info("weights_mode") == "private"
    (warning,) = (record.getMessage() for record in caplog.records)
    assert warning.startswith(
        "the model cache is off, and each start packs the weights anew: the model cache "
    )
    assert (
        f"may replace what is in {tmp_path / 'open'} (" in warning
        and "(RANKMESH_CACHE=off)" in warning
    )
    usual = served_cache("")
    assert usual and usual.open() is None


@pytest.mark.parametrize("word", ["off", "OFF", "no", "false", "0"])
def test_off_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("RANKMESH_CACHE", word)
    assert configured_cache(Config()) is None and served_cache("") is None
    assert (
        served_cache(str(tmp_path / "named")).open() is not None
    )  # the program's own word counts first
    monkeypatch.delenv("RANKMESH_CACHE")
    assert served_cache(word) is None
    build(file_of("mlp"), config_dict={"ascend_context": {"model_cache_dir": word}})
    assert not caplog.records
    assert [path.name for path in tmp_path.iterdir()] == ["named"]


def test_on_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("RANKMESH_CACHE", "on")
    places = configured_cache(Config()), served_cache(""), served_cache("yes")
    stores = *(place and place.open() for place in places), shown_store()
    assert {str(store and store.folder) for store in stores} == {
        str(tmp_path / "own" / "rankmesh" / "models")
    }
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_packed_weights_without_a_cache_are_private_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANKMESH_CACHE", "off")
    packed = {"ascend_context": {"weights_mode": "packed"}}
    assert build(file_of("mlp"), config_dict=packed).get_model_info("weights_mode") == "private"
    assert [record.getMessage() for record in caplog.records] == [
        "weights_mode=packed needs the model cache, which is off (RANKMESH_CACHE): the weights "
        "are private."
    ]


def test_who_looks_after_the_cache_is_told_that_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_CACHE", "off")
    fails(
        UsageError,
        "RANKMESH_CACHE=off: the model cache is off. Set RANKMESH_CACHE to the folder that you "
        "mean.",
        shown_store,
    )


def test_without_a_home_folder_there_is_no_cache(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "RANKMESH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "os.path.expanduser", lambda path: path
    )  # as where there is no such account
    assert served_cache("") is None
    assert (
        f"user {os.getuid()} has no home folder: HOME is not set, and there is no such account."
        in caplog.text
    )
    fails(
        UsageError,
        "the model cache ~/cache: there is no such home folder.",
        served_cache("~/cache").open,
    )
