"""Attributes of MindSpore 1.x: a text (`ref_attr_name`) describes their structure.

`scalar:value0` is one entry of the singular field; `scalar:Tuple[value1,value2,]` are entries of
the plural one in reading order; `tensor:`, `type:` and `shape:` refer to `tensors` likewise, the
last by name. Tuples and lists nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from .mindir_pb2 import AttributeProto, TensorProto

Tree: TypeAlias = "str | tuple[Tree, ...]"
"""A word, or a tuple of trees."""
_TOKEN = re.compile(r"(?:Tuple|List)\[|\]|[^\[\],]+|,")
_DEPTH = 32
_BOOL = 9


def is_old(attribute: AttributeProto) -> bool:
    """Whether a text describes the attribute; "Sequence" is of the newer, nested form."""
    return bool(attribute.ref_attr_name) and "Sequence" not in attribute.ref_attr_name


def kind_and_tree(attribute: AttributeProto) -> tuple[str, Tree]:
    """(the word before the colon, the tree behind it).

    Words are `scalar`, `tensor`, `type`, `shape`, `none`, `Monad`.
    """
    kind, _, text = attribute.ref_attr_name.partition(":")
    items = _items(_tokens(text), 0)
    return kind, items[0] if len(items) == 1 else items


def entries(attribute: AttributeProto, tree: Tree, of_tensor: Callable[[TensorProto], Any]) -> Any:
    """The tree with entries in place of words; ValueError where there are fewer entries."""
    if isinstance(tree, str):
        return next(_values(attribute, of_tensor), None)
    return _filled(tree, _values(attribute, of_tensor), attribute.name)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"'{text}' is no description of values at character {at}")
        yield match.group()
        at = match.end()


def _items(tokens: Iterator[str], depth: int) -> tuple[Tree, ...]:
    """The trees up to the bracket that closes them, or to the end."""
    if depth > _DEPTH:
        raise ValueError(f"values nest deeper than {_DEPTH} levels")
    found: list[Tree] = []
    for token in tokens:
        if token == "]":  # nosec B105  # of the grammar, no password
            break
        if token.endswith("["):
            found.append(_items(tokens, depth + 1))
        elif token != ",":  # nosec B105  # likewise
            found.append(token)
    return tuple(found)


def _filled(tree: Tree, values: Iterator[Any], name: str) -> Any:
    if isinstance(tree, str):
        try:
            return next(values)
        except StopIteration:
            raise ValueError(f"attribute '{name}' describes more values than it has") from None
    return tuple(_filled(item, values, name) for item in tree)


def _values(attribute: AttributeProto, of_tensor: Callable[[TensorProto], Any]) -> Iterator[Any]:
    """The entries that an attribute has, of whichever field, in order."""
    if attribute.tensors or attribute.HasField("t"):
        return map(of_tensor, attribute.tensors or [attribute.t])
    for plural, singular in (("ints", "i"), ("floats", "f"), ("doubles", "d"), ("strings", "s")):
        many = getattr(attribute, plural) or (
            [getattr(attribute, singular)] if attribute.HasField(singular) else []
        )
        if many:
            return (_python(value, attribute.type) for value in many)
    return iter(())


def _python(value: Any, kind: int) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return bool(value) if kind == _BOOL else value
