"""Key files: written once, readable by nobody else, the same on every host."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import rankmesh

from rankmesh.comm.errors import UsageError
from rankmesh.comm.transport.curve import make_keys, public_key
from rankmesh.comm.transport.key_file import keys_from_environment, read_keys, write_keys


def test_written_keys_are_read_again(tmp_path: Path) -> None:
    keys, path = make_keys(), tmp_path / "key"
    write_keys(str(path), keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(str(path)) == keys
    assert keys_from_environment({"RANKMESH_KEY_FILE": str(path)}) == keys
    assert keys != make_keys() and keys.server != keys.client
    assert keys.server not in repr(keys)


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = rankmesh("key", "make", path)
    assert first.returncode == 0 and f"wrote {path}" in first.stdout
    before = path.read_bytes()
    second = rankmesh("key", "make", path)
    assert second.returncode == 2 and "exists already, and is kept" in second.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    write_keys(str(path), make_keys())
    path.chmod(mode)
    with pytest.raises(UsageError, match=rf"has mode {mode:04o}, .* expected 0600.*chmod 600"):
        read_keys(str(path))


def test_a_file_may_be_read_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_keys(str(path), make_keys())
    path.chmod(0o400)
    read_keys(str(path))


@pytest.mark.skipif(os.getuid() != 0, reason="giving files away needs root")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_keys(str(path), make_keys())
    os.chown(path, 12345, -1)
    with pytest.raises(UsageError, match="belongs to user 12345, expected 0"):
        read_keys(str(path))


@pytest.mark.skipif(os.getuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize(
    ("mode", "group", "text"),
    [
        (0o440, 12345, ""),
        (0o444, 12345, "has mode 0444"),
        (0o460, 12345, "has mode 0460"),
        (0o440, 54321, "belongs to user 0, expected 12345"),
    ],
)
def test_a_mounted_secret_is_roots_and_readable_for_a_group_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, group: int, text: str
) -> None:
    path = tmp_path / "key"
    write_keys(str(path), make_keys())
    path.chmod(mode)
    os.chown(path, 0, group)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(os, "getgroups", lambda: [12345])
    if not text:
        read_keys(str(path))
        return
    with pytest.raises(UsageError, match=text):
        read_keys(str(path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="no regular file"):
        read_keys(str(tmp_path / "pipe"))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_keys(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write_keys(str(tmp_path / "missing" / "key"), make_keys())


def test_without_a_key_file_several_hosts_are_refused() -> None:
    with pytest.raises(
        UsageError,
        match="several hosts, and RANKMESH_KEY_FILE names no key file.*rankmesh key make",
    ):
        keys_from_environment({})


GOOD = f"server-secret {'a' * 40}\nclient-secret {'b' * 40}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        GOOD + GOOD,
        GOOD + "client-secret",
        GOOD.replace("client", "server"),
        GOOD.replace("b" * 40, "b"),
        GOOD.replace("b" * 40, "é" * 40),
        GOOD + "#" * 5000,
        "# \n" * 2000 + GOOD,
    ],
)
def test_what_is_no_key_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(
        UsageError, match="is no key file: expected the two lines server-secret and client-secret"
    ):
        read_keys(str(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes_give_keys_or_one_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError):
        read_keys(str(path))


def test_text_that_is_no_number_is_no_key() -> None:
    assert len(public_key(make_keys().client)) == 40
    with pytest.raises(UsageError, match="holds what is no key"):
        public_key("#" * 40)
