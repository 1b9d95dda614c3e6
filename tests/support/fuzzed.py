"""What any bytes may do to the reader, the decryptor and the lowering: give a model, or one clear
error.
"""

from __future__ import annotations

from pathlib import Path

from encrypted import KEY, encrypted

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lite.lite_file import read_lite
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.crypto import Decryption
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.compiler.mindir.segments import MODES

KINDS = ("plain", "encrypted", "decrypted", "lite")


def survives(path: Path, content: bytes, decryption: Decryption | None = None) -> None:
    """Reading and lowering give a model, or a ModelError that names the file."""
    path.write_bytes(content)
    try:
        lower_mindir(read_model(str(path), decryption))
    except ModelError as error:
        assert str(path) in str(error) and len(str(error)) < 100_000


def survives_lite(path: Path, content: bytes) -> None:
    """As `survives`, of a .ms file."""
    path.write_bytes(content)
    try:
        lower_mindir(read_lite(str(path)))
    except ModelError as error:
        assert str(path) in str(error) and len(str(error)) < 100_000


def survives_as(kind: str, path: Path, content: bytes) -> None:
    """`content` as a model; as an encrypted file, whatever it is; encrypted by us, and thus
    decrypted again; or as a .ms file.
    """
    if kind == "lite":
        return survives_lite(path, content)
    decryption = Decryption(KEY, MODES[len(content) % len(MODES)])
    if kind == "plain":
        survives(path, content)
    elif kind == "encrypted":
        survives(path, content, decryption)
    else:
        half = len(content) // 2
        survives(path, encrypted([content[:half], content[half:]], decryption.mode), decryption)
