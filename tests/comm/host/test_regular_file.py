"""Files that users name: regular ones are read within bounds, others are refused without waiting
for them.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
from hostile import special_file

from rankmesh.comm.host.regular_file import open_regular, read_file_or_pipe, read_regular


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pipe", "it is a named pipe, expected a regular file"),
        ("endless", "it is a device, expected a regular file"),
        ("folder", "Is a directory"),
        ("socket", "No such device or address"),
        ("nothing", "No such file or directory"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str, said: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=said) as caught:
        open_regular(str(special_file(tmp_path, kind)))
    assert caught.value.strerror == said
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_path_with_a_null_character_is_refused_as_others() -> None:
    with pytest.raises(OSError, match="null"):
        open_regular("a\0b")


def test_content_is_read_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2048)
    assert read_regular(str(path), 2048) == b"x" * 2048
    with pytest.raises(
        OSError, match=re.escape("it is longer than 1 KiB, the most that such a file may have")
    ):
        read_regular(str(path), 1024)


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(str(tmp_path / "link"), 9) == b"x"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = special_file(tmp_path, "pipe")
    writer = threading.Thread(target=path.write_bytes, args=(b"x" * 1024,))
    writer.start()
    assert read_file_or_pipe(str(path), 1024, 60) == b"x" * 1024
    writer.join()


def test_a_pipe_that_has_too_much(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"x" * 2000)
    with pytest.raises(OSError, match=re.escape("it is longer than 1 KiB")):
        read_file_or_pipe(f"/proc/self/fd/{ours}", 1024, 60)
    os.close(ours)
    os.close(theirs)


def test_a_pipe_that_nothing_is_written_to(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=re.escape("it is a pipe whose writer has not ended within 0.1 s")
    ):
        read_file_or_pipe(str(special_file(tmp_path, "pipe")), 1024, 0.1)
