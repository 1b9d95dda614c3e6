"""Changes of a parsed model that keep it a protobuf message: what byte changes seldom reach."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_NUMBERS = (
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    19,
    20,
    25,
    31,
    64,
    255,
    1 << 16,
    1 << 25,
    1 << 31,
    -(1 << 31),
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
_REALS = (0.0, -0.0, 1.0, -1.5, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    ":",
    "REF::",
    "Constant",
    "x",
    "scalar:Tuple[value1,]",
    "shape:shape1,",
    "Tuple[",
    "\0",
    "é",
)
_BITS = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
Place = tuple[Message, FieldDescriptor, Any]


def change(model: Message, random: Random, count: int = 1) -> None:
    """Change so many fields anywhere in the model: a value, or an item more, fewer, doubled or
    elsewhere.

    Every field is as likely as every other; a new value is often what the same field has in another
    place.
    """
    for _ in range(count):
        places = list(_places(model))
        if not places:
            return
        message, field, value = random.choice(places)
        alike = [other for _, of, other in places if of is field]
        if _is_list(value):
            _change_list(value, field, random, random.choice(alike))
        elif not isinstance(value, (bool, int, float, bytes, str)) or random.random() < 0.1:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _other(field, value, random.choice(alike), random))


def _places(message: Message) -> Iterator[Place]:
    """Every field that is set, at any depth."""
    for field, value in message.ListFields():
        yield message, field, value
        for inner in value if _is_list(value) else [value]:
            if isinstance(inner, Message):
                yield from _places(inner)


def _is_list(value: Any) -> bool:
    return hasattr(value, "append")


def _change_list(items: Any, field: FieldDescriptor, random: Random, others: Any) -> None:
    at = random.randrange(len(items))
    what = random.randrange(5)
    if what == 0:
        del items[at]
    elif what == 1:
        items.append(items[at])
    elif what == 2:
        items.insert(random.randrange(len(items)), items.pop(at))
    elif isinstance(items[at], Message):
        items[at].ParseFromString(
            random.choice(others).SerializeToString()
        )  # it may be inside the other
    else:
        items[at] = _other(field, items[at], random.choice(others), random)


def _other(field: FieldDescriptor, value: Any, elsewhere: Any, random: Random) -> Any:
    if random.random() < 0.5 and elsewhere != value:
        return elsewhere
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        most = 1 << _BITS.get(field.cpp_type, 32) - 1
        return max(
            -most,
            min(random.choice((*_NUMBERS, value + 1, value - 1, random.randrange(45))), most - 1),
        )
    if isinstance(value, float):
        return random.choice(_REALS)
    if isinstance(value, bytes):
        return random.choice(
            (b"", value[:-1], value + b"\0", value * 2, bytes(len(value)), b"\xff" * len(value))
        )
    return random.choice((*_TEXTS, value + "1", value[:-1]))
