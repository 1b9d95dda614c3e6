"""YAML 1.2: what plain words and numbers of a settings file mean.

PyYAML follows YAML 1.1, in which `no` is a truth value, `22:30` a number to base 60 (one of a megabyte takes a minute),
`1_000` another and `010` is eight. Settings mean none of these: https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import ScalarNode

_TAG = "tag:yaml.org,2002:"
_SIGN_OR_DIGIT = [*"-+0123456789"]
_PLAIN = {
    "null": (r"~|null|Null|NULL|", [*"~nN", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", _SIGN_OR_DIGIT),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
              [*_SIGN_OR_DIGIT, "."]),
    "merge": (r"<<", ["<"]),
}


class Yaml12Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the types of YAML 1.2, and the merge key `<<`."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def whole(self, node: ScalarNode) -> int:
        """A whole number; ValueError where it is none."""
        text = self.construct_scalar(node)
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)

    def real(self, node: ScalarNode) -> float:
        """A number; ValueError where it is none."""
        return float(self.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))


for name, (words, starts) in _PLAIN.items():
    Yaml12Loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{words})\Z"), starts)
Yaml12Loader.add_constructor(f"{_TAG}int", Yaml12Loader.whole)
Yaml12Loader.add_constructor(f"{_TAG}float", Yaml12Loader.real)
