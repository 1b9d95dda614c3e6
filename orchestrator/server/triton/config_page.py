"""Configuration page: a ModelConfig in the JSON form that Triton gives it."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict

from ..grpc.protocol.model_config import ModelConfig

_OF_64_BITS = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


def config_page(config: bytes) -> dict[str, Any]:
    """A serialized ModelConfig with all fields, by their names.

    Numbers of 64 bits are numbers, as Triton has them; the JSON form of protobuf makes them texts.
    """
    page = MessageToDict(
        ModelConfig.FromString(config),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    return _with_numbers(ModelConfig.DESCRIPTOR, page)


def _with_numbers(kind: Any, page: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(kind.fields_by_name[name], value) for name, value in page.items()}


def _value(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(field, one) for one in value]
    kind = field.message_type
    if kind is None:
        return int(value) if field.cpp_type in _OF_64_BITS else value
    if kind.GetOptions().map_entry:
        return {key: _value(kind.fields_by_name["value"], one) for key, one in value.items()}
    return _with_numbers(kind, value)
