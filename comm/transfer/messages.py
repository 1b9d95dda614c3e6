"""Messages of a transfer: files are offered by digest, wanted by range, and sent in chunks.

The host that fetches asks, and the other one answers. No message has a path that either end opens:
a name only says where a model expects a file, beside its other files.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ..decoding import guarded

CHUNK = 1 << 20
"""Bytes that one chunk may have."""

MOST_FILES = 1 << 14
LONGEST_TEXT = 4096
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""BLAKE2b of 32 bytes of a whole file, as lower-case hex digits."""

Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]


Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class OfferedFile(msgspec.Struct, frozen=True):
    """A file: its name relative to the model's folder, with `/`; its size in bytes, its digest."""

    name: Name
    size: Place
    digest: Digest


class Offer(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to host, first: all files that its ranks need of the model `label`.

    `pattern` is the name of a shard, with `{rank}` where each rank has one of its own.
    """

    label: Name
    pattern: Name
    files: Annotated[tuple[OfferedFile, ...], msgspec.Meta(min_length=1, max_length=MOST_FILES)]

    @property
    def size(self) -> int:
        """Bytes of all files, each content once."""
        return sum({file.digest: file.size for file in self.files}.values())


class Want(msgspec.Struct, frozen=True, tag=True):
    """Host to orchestrator: send so many bytes of a file."""

    digest: Digest
    offset: Place
    length: Annotated[int, msgspec.Meta(ge=1, le=CHUNK)]


class Chunk(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to host: the bytes that were wanted, in the order of the wants."""

    digest: Digest
    offset: Place
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=CHUNK)]


class Withheld(msgspec.Struct, frozen=True, tag=True):
    """Orchestrator to host: the file cannot be sent, and why."""

    digest: Digest
    text: Text


class Held(msgspec.Struct, frozen=True, tag=True):
    """Host to orchestrator, last: it has all files, of which `fetched` bytes were sent."""

    fetched: Place


class Lacking(msgspec.Struct, frozen=True, tag=True):
    """Host to orchestrator, last: it cannot have the files.

    `error` is a class name of comm/errors.py.
    """

    error: Annotated[str, msgspec.Meta(max_length=100)]
    text: Text


ToHost: TypeAlias = Offer | Chunk | Withheld
FromHost: TypeAlias = Want | Held | Lacking
encode = msgspec.msgpack.encode
decode_to_host = guarded(msgspec.msgpack.Decoder[ToHost](ToHost))
"""Decode a message to a host; raises msgspec.DecodeError, and nothing else, for other bytes."""

decode_from_host = guarded(msgspec.msgpack.Decoder[FromHost](FromHost))
"""Decode a message from a host; raises as `decode_to_host`."""
