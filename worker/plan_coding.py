"""Plans as bytes (MessagePack), for the model cache and for telling models apart."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from google.protobuf.message import DecodeError, Message

from ..comm.decoding import guarded
from . import dtypes
from .plan import Plan


def _encode(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return dtypes.to_onnx(value)
    if isinstance(value, Message):
        return value.SerializeToString()
    raise NotImplementedError(f"{type(value).__name__} in a plan")


def _decode(kind: Any, value: Any) -> Any:
    if getattr(kind, "__origin__", kind) is np.dtype:
        return dtypes.from_onnx(value)
    if issubclass(kind, Message):
        try:
            return kind.FromString(value)
        except DecodeError as error:  # msgspec knows only Python's own errors
            raise ValueError(str(error)) from error
    raise NotImplementedError(f"{kind.__name__} in a plan")


encode_plan = msgspec.msgpack.Encoder(enc_hook=_encode).encode
decode_plan = guarded(msgspec.msgpack.Decoder(Plan, dec_hook=_decode))
