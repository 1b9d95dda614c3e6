"""Hostile documents: a grammar of JSON for a model `echo`, of values and of text that cannot be."""

from __future__ import annotations

import json
from random import Random
from typing import Any

SIZE = 8
"""Elements of the model's input x."""

SHAPES = (
    *(
        [SIZE],
        [-1],
        [-SIZE],
        [0],
        [],
        [SIZE, 1],
        [1 << 31] * 3,
        [1 << 62, 4],
        [1 << 64],
        [SIZE + 0.5],
    ),
    *(
        ["8"],
        [True],
        None,
        "8",
        {},
        [None],
        [[SIZE]],
        [1] * 40,
        [1 << 63],
        [-(1 << 63), -1],
        [1e400],
    ),
)
_VALUES = (
    *(
        0,
        -1,
        1 << 63,
        1 << 64,
        10**400,
        1e308,
        -0.0,
        1.5,
        True,
        None,
        "",
        "x",
        [],
        {},
        [[]],
        {"a": {}},
    ),
    *("\0", "\ud800", "x" * 3000, "../../etc/passwd", "/etc/passwd", {"a": [{}]}, [1, [2, [3]]]),
)
_PARAMETERS = (
    *("binary_data_size", "binary_data", "binary_data_output", "classification", "priority"),
    *("timeout", "sequence_id", "sequence_start", "shared_memory_region", "shared_memory_offset"),
    *("shared_memory_byte_size", "triton_enable_empty_final_response", "", "x" * 300),
)
_DATATYPES = (
    "FP32",
    "fp32",
    "FP64",
    "INT8",
    "BYTES",
    "BF16",
    "BOOL",
    "",
    None,
    3,
    "FP32\0",
    "X" * 999,
)
_LISTS = ("1,", "1e999,", "-,", "NaN,", "null,", '"1",', "[1],", "{},", "01,", "1" * 5000 + ",")


class HostileDocuments:
    """Draws documents of inference requests."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def sound(self) -> dict[str, Any]:
        """A document without a fault."""
        values = [self._random.randrange(100) for _ in range(SIZE)]
        x = {"name": "x", "shape": [SIZE], "datatype": "FP32", "data": values}
        return {"id": "1", "inputs": [x], "outputs": [{"name": "y"}], "parameters": {}}

    def spoilt(self) -> bytes:
        """The text of a document with a fault or two, or of none."""
        choose = self._random.choice
        which = self._random.randrange(8)
        if which == 0:
            depth = choose([10, 40, 1000, 100_000])
            opened, closed = choose([("[", "]"), ('{"a":', "}")])
            return (opened * depth + closed * choose([0, depth])).encode()
        if which == 1:
            data = choose(_LISTS) * choose([1, SIZE, 500])
            found = json.dumps(self.sound())
            return found.replace('"data": [', f'"data": [{data}').encode()
        if which == 2:
            found = json.dumps(self.sound()).encode()
            return choose([b"\xef\xbb\xbf" + found, found.decode().encode("utf-16"), found + b"x"])
        if which == 3:
            found = json.dumps(self.sound()).encode().replace(b"FP32", b"F\xff32")
            return found.replace(b'"id"', choose([b'"id\xff"', b'"inputs"', b'"inputs":[],"id"']))
        document = self.sound()
        for _ in range(self._random.randint(1, 3)):
            self._spoil(document)
        return json.dumps(document).encode("utf-8", "surrogatepass")

    def _spoil(self, document: dict[str, Any]) -> None:
        choose = self._random.choice
        one = choose(
            [document, *[i for i in document.get("inputs") or [{}] if isinstance(i, dict)]]
        )
        key = choose([*(one or {"inputs": 0}), "parameters", "outputs", "x"])
        if key == "shape":
            one[key] = choose(SHAPES)
        elif key == "datatype":
            one[key] = choose(_DATATYPES)
        elif key == "parameters":
            one[key] = {choose(_PARAMETERS): choose(_VALUES) for _ in range(2)}
        elif key == "outputs":
            parameters = {choose(_PARAMETERS): choose(_VALUES)}
            one[key] = [
                {"name": choose(["y", "y", "z", "", 1]), "parameters": parameters}
            ] * choose([1, 2])
        elif key == "inputs" and isinstance(document.get("inputs"), list):
            document["inputs"] = document["inputs"] * choose([0, 2, 50])
        elif self._random.random() < 0.3:
            one.pop(key, None)
        else:
            one[key] = choose(_VALUES)
