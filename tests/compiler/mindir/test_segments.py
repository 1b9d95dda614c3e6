"""The layout of encrypted files: lengths are checked before they are used, and faults have their
byte.
"""

from __future__ import annotations

import pytest
from encrypted import MAGIC, encrypted, framed
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.compiler.mindir.segments import MODES, SegmentError, mode_of, segments_of

pytestmark = pytest.mark.pure

GCM = framed("AES-GCM", bytes(16), b"cipher")
CBC = framed("AES-CBC", b"", bytes(16))


def refuse(content: bytes, *phrases: str) -> None:
    with pytest.raises(SegmentError) as caught:
        segments_of(memoryview(content))
    for phrase in phrases:
        assert phrase in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_the_first_bytes_tell_the_mode(mode: str) -> None:
    assert mode_of(memoryview(MAGIC[mode] + b"more")) == mode


@pytest.mark.parametrize("content", [b"", b"\xd8", b"\xd8\x5e\x3a", b"\x0a\x031.1"])
def test_other_files_are_not_encrypted(content: bytes) -> None:
    assert mode_of(memoryview(content)) == ""


def test_a_chain_of_segments() -> None:
    parts = [(b"t" * 16, b"one"), (b"u" * 16, b""), (b"v" * 16, b"2")]
    content = b"".join(framed("AES-GCM", tag, cipher) for tag, cipher in parts)
    found = segments_of(memoryview(content))
    assert [content[s.start : s.start + s.length] for s in found] == [b"one", b"", b"2"]
    assert [s.tag for s in found] == [b"t" * 16, b"u" * 16, b"v" * 16]
    assert [s.offset for s in found] == [0, 51, 99]


def test_old_files_have_no_tag() -> None:
    content = framed("AES-GCM", b"", b"one", tagless=True) * 2
    assert [(s.tag, s.length) for s in segments_of(memoryview(content))] == [(b"", 3), (b"", 3)]


@pytest.mark.parametrize("cut", range(4, len(GCM)))
def test_truncation_inside_any_field(cut: int) -> None:
    refuse(GCM[:cut], "truncated" if cut >= 48 else "inside the header")


def test_truncation_of_a_later_segment_names_its_byte() -> None:
    refuse((CBC + CBC)[:-1], f"at byte {len(CBC)}", "needs 16 bytes", "15 are left")


def test_bytes_behind_the_last_segment() -> None:
    refuse(CBC + b"junk", f"at byte {len(CBC)}")


@pytest.mark.parametrize(
    ("place", "value", "phrase"),
    [
        (4, 2**32 - 1, "says that it has 4294967295 bytes"),
        (8, 2**32 - 1, "vector of 4294967295 bytes"),
        (8, 0, "vector of 0 bytes"),
        (28, 2**31, "its parts say 2147483672"),
    ],
)
def test_absurd_lengths(place: int, value: int, phrase: str) -> None:
    refuse(CBC[:place] + value.to_bytes(4, "little") + CBC[place + 4 :], phrase, "at byte 0")


def test_lengths_that_agree_and_lie_beyond_the_file() -> None:
    content = bytearray(CBC)
    content[4:8], content[28:32] = (
        (2**32 - 8).to_bytes(4, "little"),
        (2**32 - 32).to_bytes(4, "little"),
    )
    refuse(bytes(content), "needs 4294967264 bytes", "16 are left", "truncated")


@given(st.sampled_from(MODES), st.binary(max_size=200))
def test_any_bytes_behind_a_magic(mode: str, content: bytes) -> None:
    content = MAGIC[mode] + content
    try:
        found = segments_of(memoryview(content))
    except SegmentError as error:
        assert "byte" in str(error)
    else:
        assert sum(s.length for s in found) < len(content)


@given(
    st.sampled_from(MODES), st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.booleans()
)
def test_what_was_written_is_found(mode: str, parts: list[bytes], tagless: bool) -> None:
    found = segments_of(memoryview(encrypted(parts, mode, tagless=tagless)))
    assert len(found) == len(parts)
    assert [bool(s.tag) for s in found] == [mode == "AES-GCM" and not tagless] * len(parts)
