"""Descriptors of the protocol's messages: a private pool, which no other library's can meet.

Clients' libraries register `inference.ModelInferRequest` and its kin in protobuf's default pool,
each in its own form, and two of them in one process collide. After a change of a .proto file make
`protocol.binpb` and the stubs again, with the package grpcio-tools, in this folder:

    python -m grpc_tools.protoc -I. --include_imports --descriptor_set_out=protocol.binpb \\
        --pyi_out=. *.proto
    for stub in *_pb2.pyi; do mv $stub ${stub%_pb2.pyi}.pyi; done
    sed -i 's/^import model_config_pb2/from . import model_config/' inference.pyi
    sed -i 's/[*]kwargs)/*kwargs: bool)/' model_config.pyi
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

POOL = DescriptorPool()
"""The pool of all protocols that this server speaks."""


def _register() -> None:
    compiled = Path(__file__).with_name("protocol.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(compiled).file:
        POOL.AddSerializedFile(file.SerializeToString())


def file_named(name: str) -> FileDescriptor:
    """The file of one protocol; KeyError where there is none of this name."""
    return POOL.FindFileByName(name)


def messages_of(name: str) -> dict[str, type[Message]]:
    """The classes of all messages of one file, by name."""
    types = file_named(name).message_types_by_name
    return {name: GetMessageClass(found) for name, found in types.items()}


def enums_of(name: str) -> dict[str, EnumTypeWrapper]:
    """The enumerations of one file outside its messages, by name."""
    return {name: EnumTypeWrapper(one) for name, one in file_named(name).enum_types_by_name.items()}


_register()
