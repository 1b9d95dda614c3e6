"""Lite file: a .ms file, mapped, checked and read as a graph of primitives."""

from __future__ import annotations

import json
import mmap
import os
from typing import TYPE_CHECKING

from ...comm.errors import ModelError
from ...comm.host.regular_file import open_regular
from ...comm.host.stamp import Stamp
from ..mindir.graph import MindirModel
from .flatbuffer import Flatbuffer, FlatbufferError, Table
from .graph_reader import GraphReader
from .lite_tensors import LiteTensors
from .schema.lite_schema import lite_schema

if TYPE_CHECKING:
    from ..mindir.crypto import Decryption

IDENTIFIER = b"MSL2"
"""The mark of .ms files, at byte 4."""


def read_lite(path: str, decryption: Decryption | None = None) -> MindirModel:
    """Read the .ms file at `path`. Weights stay in it.

    Raises ModelError, which names the file, the byte or the node, and what was expected. With a key
    in `decryption` it refuses the file, as .ms files are not encrypted.
    """
    if decryption:
        decryption.refuse_plain(path)
    try:
        stamp = Stamp.of(path)
        data = _mapped(path)
        if bytes(data[4:8]) != IDENTIFIER:
            raise ModelError(
                f"{path}: begins with the mark {bytes(data[4:8])!r}, expected {IDENTIFIER!r}: the "
                "file is of a release before MindSpore Lite 1.2. Convert the model again."
            )
        return _model(path, Flatbuffer(data, lite_schema()).root("MetaGraph"), data, stamp)
    except FlatbufferError as error:
        raise ModelError(
            f"{path}: not a readable .ms file: {error}. The file is truncated or corrupt: convert "
            "or copy it again."
        ) from error
    except ValueError as error:
        raise ModelError(f"{path}: {error}. Convert or copy it again.") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error


def _mapped(path: str) -> memoryview:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < 8:
            raise FlatbufferError("it has less than 8 bytes")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _model(path: str, root: Table, data: memoryview, stamp: Stamp) -> MindirModel:
    from ..lowering.ends import OUTPUT_NAMES

    if root["obfuscate"]:
        raise ModelError(f"{path}: is obfuscated, which is not supported: convert it without.")
    tensors = LiteTensors(root["allTensors"], path, data)
    reader = GraphReader(path, root, tensors)
    entry, functions = reader.graphs()
    return MindirModel(
        path,
        root["version"] or "MindSpore Lite",
        entry,
        functions,
        reader.constants,
        reader.weights,
        {OUTPUT_NAMES: json.dumps(reader.output_names())},
        files={"": stamp, **tensors.files},
    )
