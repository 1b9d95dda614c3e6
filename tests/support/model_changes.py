"""Changes of a parsed model that keep it a protobuf message: what byte changes seldom reach."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_NUMBERS = (0, 1, -1, 2, -2, 3, 7, 19, 20, 25, 31, 64, 255, 1 << 16, 1 << 25, 1 << 31, -(1 << 31), 1 << 40,
            (1 << 63) - 1, -(1 << 63))
_REALS = (0.0, -0.0, 1.0, -1.5, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", ":", "REF::", "Constant", "x", "scalar:Tuple[value1,]", "shape:shape1,", "Tuple[", "\0", "é")
_INTEGERS = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}


def change(message: Message, random: Random) -> None:
    """Change one field somewhere in the message: a value, an item more, fewer, doubled or elsewhere."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = random.choice(fields)
    inner = [value] if isinstance(value, Message) else list(value) if _holds_messages(value) else []
    if inner and random.random() < 0.85:
        change(random.choice(inner), random)
    elif _is_list(value):
        _change_list(value, field, random)
    elif not isinstance(value, (bool, int, float, bytes, str)) or random.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _other(field, value, message, random))


def _is_list(value: Any) -> bool:
    return hasattr(value, "append") or hasattr(value, "add")


def _holds_messages(value: Any) -> bool:
    return _is_list(value) and bool(len(value)) and isinstance(value[0], Message)


def _change_list(items: Any, field: FieldDescriptor, random: Random) -> None:
    at = random.randrange(len(items))
    what = random.randrange(4)
    if what == 0:
        del items[at]
    elif what == 1:
        items.append(items[at])
    elif what == 2 and not isinstance(items[at], Message):
        items[at] = _other(field, items[at], None, random)
    else:
        items.insert(random.randrange(len(items)), items.pop(at))


def _other(field: FieldDescriptor, value: Any, message: Message | None, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        bits = _INTEGERS.get(field.cpp_type, 32)
        wanted = random.choice((*_NUMBERS, value + 1, value - 1, random.randrange(45)))
        return max(-(1 << bits - 1), min(wanted, (1 << bits - 1) - 1)) if bits else value
    if isinstance(value, float):
        return random.choice(_REALS)
    if isinstance(value, bytes):
        return random.choice((b"", value[:-1], value + b"\0", value * 2, bytes(len(value)), b"\xff" * len(value)))
    return random.choice((*_TEXTS, value + "1", value[:-1]))
