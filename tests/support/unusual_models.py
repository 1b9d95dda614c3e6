"""Random models: legal but unusual ONNX, with inputs, of which onnxruntime alone has the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from unusual_blocks import BLOCKS
from unusual_graphs import BATCH, Draft, Value
from unusual_operators import OPERATORS
from unusual_spellings import is_real, spell

_SHAPES = ((4,), (8,), (4, 5), (6, 8), (2, 6, 6), (4, 4, 4), (1, 8), (), (8, 4))
_OPSETS = range(13, 24)
TOLERANCES = {"float64": 1e-6, "float32": 2e-4, "float16": 3e-2, "bfloat16": 5e-2}
"""The largest relative difference that rounding explains, by the coarsest dtype of a model."""
_ROUNDED = 5e-2
"""The same where weights have 8 bits: onnxruntime then rounds inputs of products to 8 bits, too."""


@dataclass(frozen=True)
class RandomModel:
    """A model with inputs, and the names of its unusual spellings.

    `tolerance` is the largest difference to the largest value of an output that rounding explains.
    """

    model: ModelProto
    feeds: Mapping[str, np.ndarray[Any, Any]]
    spellings: tuple[str, ...]
    tolerance: float

    def write(self, folder: Path) -> Path:
        """The file of the model; NPZ files have its inputs by number, as names may be no files."""
        path = folder / "model.onnx"
        path.write_bytes(self.model.SerializeToString())
        listed = [one.name for one in self.model.graph.input]
        names = listed if set(self.feeds) <= set(listed) else list(self.feeds)  # some are renamed
        arrays = {f"in_{names.index(name)}": one for name, one in self.feeds.items()}
        np.savez(folder / "inputs.npz", **arrays)
        return path


def random_model(random: Random, most: int = 8) -> RandomModel:
    """A model of up to `most` steps, by the numbers that `random` gives."""
    draft, feeds = _begun(random)
    for _ in range(random.randrange(1, most + 1)):
        choices = BLOCKS if draft.chance(0.25) else OPERATORS
        random.choice(choices)(draft)
    model = _finished(draft, feeds)
    names = [one.name for one in model.graph.input]
    spellings = spell(model, random)
    renamed = [one.name for one in model.graph.input][: len(names)]
    arrays = {new: feeds[old][1] for old, new in zip(names, renamed, strict=True)}
    if random.randrange(2):
        arrays |= _other_defaults(model)
    return RandomModel(model, arrays, tuple(spellings), _tolerance(draft))


def _other_defaults(model: ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    """Other values of the inputs with a default, of floating point: no integers, which shards take
    as weights.
    """
    if model.ir_version < 4:  # their weights are no inputs
        return {}
    listed = {one.name for one in model.graph.input if is_real(one)}
    found = {
        one.name: numpy_helper.to_array(one)
        for one in model.graph.initializer
        if one.name in listed
    }
    return {name: np.asarray(array * 1.25, array.dtype) for name, array in found.items()}


Feeds = dict[str, tuple[Value, np.ndarray[Any, Any]]]


def _tolerance(draft: Draft) -> float:
    """The largest of all that a model's values need."""
    found = max(TOLERANCES.get(one.dtype.name, 0.0) for one in draft.values)
    rounds = any(node.op_type == "DequantizeLinear" for node in draft.nodes)
    return max(found, _ROUNDED) if rounds else found


def _begun(random: Random) -> tuple[Draft, Feeds]:
    """A draft with one to three inputs, of which the first dimension may be open, even empty."""
    batch = random.choice([-1, -1, BATCH, BATCH, BATCH, BATCH, BATCH, 0])
    kind = np.dtype(random.choice([np.float32] * 6 + [np.float16, np.float64]))
    draft = Draft(random, random.choice(_OPSETS), batch, kind)
    feeds: Feeds = {}
    for index in range(random.randrange(1, 4)):
        own = (
            kind
            if index == 0 or random.randrange(4)
            else np.dtype(random.choice([np.int64, np.int32]))
        )
        feeds[f"x{index}"] = _input(draft, f"x{index}", own, feeds)
    if draft.chance(0.15):
        value = Value("flag", np.dtype(bool), (), True)
        feeds["flag"] = value, np.array(draft.chance(0.5))
    return draft, feeds


def _input(
    draft: Draft, name: str, kind: np.dtype[Any], feeds: Feeds
) -> tuple[Value, np.ndarray[Any, Any]]:
    shape = draft.random.choice(_SHAPES)
    if draft.batch >= 0 and (not feeds or draft.chance(0.6)):
        shape = (draft.batch, *shape)
    elif not feeds and not shape:
        shape = (4,)
    size = int(np.prod(shape))
    if kind.kind == "f":
        numbers = [draft.random.randrange(-200, 200) / 100 + 0.0013 for _ in range(size)]
    else:
        numbers = [draft.random.randrange(-5, 6) for _ in range(size)]
    value = draft.add(Value(name, kind, shape, True))
    return value, np.array(numbers).reshape(shape).astype(kind)


def _finished(draft: Draft, feeds: Feeds) -> ModelProto:
    """The model of a draft, whose outputs are the last values that nodes made."""
    made = [one for one in draft.values if one.name not in feeds]
    outputs = made[-1:] + [one for one in made[:-1] if draft.chance(0.15)]
    if not outputs:
        outputs = [draft.apply("Identity", [draft.values[0].name], draft.values[0])]
    graph = helper.make_graph(
        draft.nodes,
        "random",
        [_info(draft, value) for value, _ in feeds.values()],
        [_info(draft, value) for value in outputs],
        draft.initializers,
        sparse_initializer=draft.sparse,
    )
    imports = [helper.make_opsetid("", draft.opset)]
    imports += [helper.make_opsetid(name, version) for name, version in draft.domains.items()]
    version = 10 if draft.opset < 23 or draft.chance(0.5) else 11
    return helper.make_model(
        graph, opset_imports=imports, ir_version=version, functions=draft.functions
    )


def _info(draft: Draft, value: Value) -> onnx.ValueInfoProto:
    shape = ["n" if dim == draft.batch else dim for dim in value.shape]
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(value.name, kind, shape)
