"""Configuration files: Triton's config.pbtxt, parsed as the text form of a ModelConfig."""

from __future__ import annotations

import os

from google.protobuf import text_format

from ....comm.errors import UsageError
from ....comm.host.regular_file import read_regular
from ..grpc.protocol.descriptors import POOL
from ..grpc.protocol.model_config import ModelConfig

FILE_NAME = "config.pbtxt"
_MOST_BYTES = 1 << 20
_LONGEST_REASON = 200


def read_config(folder: str) -> ModelConfig | None:
    """The configuration in a model's folder; None where it has no config.pbtxt.

    Raises UsageError with the file, and the line where it is malformed.
    """
    path = os.path.join(folder, FILE_NAME)
    try:
        text = read_regular(path, _MOST_BYTES).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no text in UTF-8.") from None
    try:
        return text_format.Parse(text, ModelConfig(), descriptor_pool=POOL)
    except text_format.ParseError as error:
        line = error.GetLine() or 1
        reason = str(error).removeprefix(f"{line}:{error.GetColumn()} : ")[:_LONGEST_REASON]
        raise UsageError(f"{path}:{line}: is no ModelConfig: {reason}") from None
