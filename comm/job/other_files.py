"""Other files: recognizes, by name or content, files that Rankmesh does not read as models.

Each answer is one sentence with the remedy, the same for all commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from ..host.regular_file import open_regular
from ..wire_fields import BYTES, VARINT, WireError, read_varint
from .other_kinds import CAFFE, OM, OTHER_KINDS, PYTORCH, TF, TFLITE

_HEAD = 4096
_MARKS = (
    (0, b"version https://git-lfs.github.com", "Git LFS"),
    (4, b"ORTM", "ORT"),
    (4, b"TFL3", TFLITE),
    (0, b"GGUF", "GGUF"),
    (0, b"lmgg", "GGUF"),
    (0, b"tjgg", "GGUF"),
    (0, b"\x89HDF\r\n\x1a\n", "HDF5"),
    (0, b"ftrt", "TensorRT"),
    (0, b"ptrt", "TensorRT"),
    (0, b"IMOD", OM),
    (0, b"\x93NUMPY", "NPY"),
    (257, b"ustar", "tar"),
    (0, b"\x1f\x8b", "compressed"),
    (0, b"BZh", "compressed"),
    (0, b"\xfd7zXZ\0", "compressed"),
    (0, b"\x28\xb5\x2f\xfd", "compressed"),
    (0, b"7z\xbc\xaf\x27\x1c", "compressed"),
    (0, b"Rar!\x1a\x07", "compressed"),
    (0, b"\x7fELF", "program"),
    (0, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", PYTORCH),
)
"""The offset and the bytes by which a kind is recognized. The last is the number that PyTorch's
checkpoints began with before they were ZIP archives.
"""
_SUFFIXES = {
    ".pt": PYTORCH,
    ".pth": PYTORCH,
    ".pdmodel": "Paddle",
    ".pdiparams": "Paddle",
    ".prototxt": CAFFE,
    ".caffemodel": CAFFE,
    ".engine": "TensorRT",
    ".trt": "TensorRT",
    ".plan": "TensorRT",
    ".mlmodel": "CoreML",
    ".mlpackage": "CoreML",
    ".om": OM,
    ".tflite": TFLITE,
    ".h5": "Keras",
    ".keras": "Keras",
    ".safetensors": "safetensors",
    ".ort": "ORT",
    ".pb": "GraphDef",
}
_MEMBERS = (
    ("archive_format", "torch.export"),
    ("models/model.json", "torch.export"),
    ("serialized_exported_program.json", "torch.export"),
    ("constants.pkl", "TorchScript"),
    ("data.pkl", PYTORCH),
    ("model.weights.h5", "Keras"),
    ("Manifest.json", "CoreML"),
    (".npy", "NPZ"),
)
"""How a name ends by which the kind of a ZIP archive is recognized; the first that fits."""
_LITE = (b"MSL0", b"MSL1", b"MSL2")
_EXPECTED = "expected an ONNX, MindIR or .ms file"


def not_a_model(path: str) -> str:
    """A sentence about a path that is not a model's, with the remedy; "" where it may be one."""
    return other_file(path) if os.path.exists(path) else other_name(path)


def other_file(path: str) -> str:
    """The kind of a file or folder, with the remedy; "" where it may be a model, or is unreadable.

    The content tells the kind, and where it does not, the suffix.
    """
    kind = _kind(path)
    if not kind:
        return ""
    if kind == "text":
        with open_regular(path) as file:
            begin = file.read(40).decode(errors="replace").split("\n")[0]
        return f"{path}: is a text that begins with {begin!r}, {_EXPECTED}. Name the model."
    return f"{path}: is {OTHER_KINDS[kind].what}, {_EXPECTED}. {OTHER_KINDS[kind].remedy}"


def _kind(path: str) -> str:
    if os.path.isdir(path):
        return _kind_of_folder(path)
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD)
    except OSError:
        return ""  # the reader of the file tells what is wrong
    if not head:
        return "empty"
    found = next((kind for at, mark, kind in _MARKS if head.startswith(mark, at)), "")
    found = found or _packed(path, head) or _structured(head)
    if found == TF and _suffix(path) == ".mlmodel":
        return "CoreML"
    if found or head[4:8] in _LITE or _is_model(head):
        return found
    return _written(path, head) or _SUFFIXES.get(_suffix(path), "")


def _kind_of_folder(path: str) -> str:
    names = set(os.listdir(path)) if os.access(path, os.R_OK) else set()
    if names & {"saved_model.pb", "saved_model.pbtxt"}:
        return TF
    if "Manifest.json" in names and path.rstrip("/").endswith(".mlpackage"):
        return "CoreML"
    return ""


def _packed(path: str, head: bytes) -> str:
    """The kind of a ZIP archive or of a pickle."""
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return _kind_of_zip(path, head)
    if re.match(rb"\x80[\x02-\x05](\x95|\}|c|\]|\x8a|K|X|\x8c|\()", head):
        return "pickle"
    return ""


def _kind_of_zip(path: str, head: bytes) -> str:
    import zipfile  # most ranks need none

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):  # it may be cut short
        names = [head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("latin-1")]
    found = (kind for end, kind in _MEMBERS if any(name.endswith(end) for name in names))
    return next(found, _SUFFIXES.get(_suffix(path), "zip"))


def _structured(head: bytes) -> str:
    """The kind of a file of weights by its header, or of a message of protobuf."""
    if head[8:10] == b'{"' and 0 < int.from_bytes(head[:8], "little") < 1 << 32:
        return "safetensors"
    parts = dict(_parts(head))
    if head[:1] == b"\x0a":
        inner = dict(_parts(parts.get(1, b"")))
        if inner.keys() >= {1, 2} and _is_text(inner[1]):
            return "GraphDef" if _is_text(inner[2]) else "MindSpore"
    second = parts.get(2, b"")  # of ONNX the name of its producer
    if head[:1] == b"\x08" and second[:1] == b"\n" and not _is_text(second) and 7 not in parts:
        return TF
    return ""


def _is_model(head: bytes) -> bool:
    """Whether a file begins as ONNX (a number, then names) or MindIR (a version) does."""
    version = dict(_parts(head)).get(1, b"")
    return head[:1] == b"\x08" or bool(re.match(rb"v?[0-9]+\.[0-9]", version))


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are texts or messages, once each, as far as they are there."""
    buffer, at = memoryview(message), 0
    seen = set[int]()
    with suppress(WireError):
        while at < len(message):
            tag, at = read_varint(buffer, at, len(message))
            size, at = read_varint(buffer, at, len(message))
            if tag & 7 == BYTES:
                if tag >> 3 not in seen:
                    yield tag >> 3, message[at : at + size]
                seen.add(tag >> 3)
                at += size
            elif tag & 7 != VARINT:
                return


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:  # else a character that the end cuts in two
            return False
        text = data[: error.start].decode()
    return all(one.isprintable() or one in "\n\r\t" for one in text)


def _written(path: str, head: bytes) -> str:
    """The kind of a text."""
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if re.match(rb"<(!doctype html|html|head|!--)", begin):
        return "HTML"
    if begin.startswith(b"<?xml"):
        return "OpenVINO" if b"<net " in begin else "XML"
    if not _is_text(head):
        return ""
    return _SUFFIXES.get(_suffix(path), "JSON" if begin[:1] in b"{[" else "text")


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


_SCHEME = re.compile(r"(?:^|/)(https?|ftp|s3|gs|hf|azure|abfss?|dbfs|models|oci|file):/+(.*)")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_OURS = (".onnx", ".mindir", ".ms")


def other_name(path: str) -> str:
    """The kind of name that the path of a missing file is, with the remedy; "" for a plain path."""
    if address := _SCHEME.search(path):
        return _addressed(path, address[1], address[2])
    if tilde := re.search(r"(?:^|/)(~[^/]*/.*)", path):
        whole = os.path.expanduser(tilde[1])
        return f"{path}: no such file: ~ is expanded by shells only. Give the whole path: {whole}"
    if re.search(r"\$\w|\$\{", path):
        return (
            f"{path}: no such file: variables are expanded by shells only. Give the whole path: "
            f"{os.path.expandvars(path)}"
        )
    if re.match(r"[A-Za-z]:\\|\\\\", path):
        return (
            f"{path}: is a path of Windows, expected one of Linux. Give the path with / as this "
            "system has it (in WSL: /mnt/c/...)."
        )
    organisation = path.partition("/")[0]
    if _HUB.fullmatch(path) and not path.endswith(_OURS) and not os.path.exists(organisation):
        return (
            f"{path}: no such file. It looks like a name at Hugging Face, from which nothing is "
            f"downloaded: run `hf download {path} --local-dir FOLDER`, and name the model in "
            "FOLDER (`rankmesh slice` takes FOLDER itself)."
        )
    return ""


def _addressed(path: str, scheme: str, rest: str) -> str:
    if scheme == "file":
        return f"{path}: is an address, expected a path. Give the path alone: /{rest}"
    name = os.path.basename(rest.rstrip("/")) or "model.onnx"
    how = {
        "hf": f"Run `hf download {'/'.join(rest.split('/')[:2])} --local-dir FOLDER`",
        "s3": f"Run `aws s3 cp s3://{rest} {name}`",
        "gs": f"Run `gcloud storage cp gs://{rest} {name}`",
    }
    curl = f"Run `curl -LO {scheme}://{rest}`"
    default = curl if scheme.startswith(("http", "ftp")) else "Download it"
    return (
        f"{path}: is an address, expected a path: nothing is downloaded. "
        f"{how.get(scheme, default)}, and name the file."
    )
