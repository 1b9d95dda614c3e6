"""A BERT-base-sized encoder with random weights: unsliced, and as two tensor-parallel shards."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from onnx_writer import Array, OnnxWriter

LAYERS, HIDDEN, HEADS, INNER, SEQUENCE, RANKS = 12, 768, 12, 3072, 128, 2
_HEAD = HIDDEN // HEADS
_SHAPE = (1, SEQUENCE, HIDDEN)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer; matrices are stored as [in, out]."""

    query: Array
    key: Array
    value: Array
    query_bias: Array
    key_bias: Array
    value_bias: Array
    output: Array
    output_bias: Array
    output_scale: Array
    output_shift: Array
    up: Array
    up_bias: Array
    down: Array
    down_bias: Array
    down_scale: Array
    down_shift: Array

    _COLUMNS = ("query", "key", "value", "up")
    _ROWS = ("output", "down")

    @classmethod
    def random(cls, random: np.random.Generator) -> Layer:
        """Weights as BERT is initialised, with biases that are not zero."""
        wide = {"up": (HIDDEN, INNER), "down": (INNER, HIDDEN), "up_bias": (INNER,)}
        found = {}
        for field in fields(cls):
            shape = wide.get(field.name) or (
                (HIDDEN, HIDDEN) if field.name in cls._COLUMNS + cls._ROWS else (HIDDEN,)
            )
            array = random.standard_normal(shape, np.float32) * np.float32(0.02)
            found[field.name] = array + 1 if field.name.endswith("scale") else array
        return cls(**found)

    def part(self, rank: int) -> Layer:
        """A rank's part: columns of the first products and rows of the second (Megatron's
        split)."""
        found = {}
        for field in fields(self):
            array = getattr(self, field.name)
            if field.name in self._ROWS:
                array = np.split(array, RANKS, axis=0)[rank]
            elif field.name in self._COLUMNS or field.name.removesuffix("_bias") in self._COLUMNS:
                array = np.split(array, RANKS, axis=-1)[rank]
            found[field.name] = array
        return Layer(**found)


def write(folder: Path) -> None:
    """Write bert.onnx, bert_rank0.onnx, bert_rank1.onnx and bert.npz, which holds an input."""
    random = np.random.default_rng(0)
    layers = [Layer.random(random) for _ in range(LAYERS)]
    _write_model(OnnxWriter(folder, "bert"), layers, sliced=False)
    for rank in range(RANKS):
        _write_model(
            OnnxWriter(folder, f"bert_rank{rank}"),
            [layer.part(rank) for layer in layers],
            sliced=True,
        )
    np.savez(folder / "bert.npz", in_0=random.standard_normal(_SHAPE, np.float32))


def _write_model(writer: OnnxWriter, layers: list[Layer], sliced: bool) -> None:
    x = "x"
    for layer in layers:
        x = _layer(writer, x, layer, sliced)
    writer.save({"x": _SHAPE}, x, _SHAPE)


def _layer(w: OnnxWriter, x: str, layer: Layer, sliced: bool) -> str:
    context = _attention(w, x, layer)
    x = _joined(
        w,
        x,
        w.op("MatMul", context, w.weight(layer.output)),
        layer.output_bias,
        layer.output_scale,
        layer.output_shift,
        sliced,
    )
    inner = w.op("Gelu", _linear(w, x, layer.up, layer.up_bias))
    return _joined(
        w,
        x,
        w.op("MatMul", inner, w.weight(layer.down)),
        layer.down_bias,
        layer.down_scale,
        layer.down_shift,
        sliced,
    )


def _joined(
    w: OnnxWriter, x: str, partial: str, bias: Array, scale: Array, shift: Array, sliced: bool
) -> str:
    """The ranks' partial products added up, the bias and the residual, normalised."""
    total = w.op("AllReduce", partial, domain="rankmesh", group="world") if sliced else partial
    total = w.op("Add", w.op("Add", total, w.weight(bias)), x)
    return w.op(
        "LayerNormalization", total, w.weight(scale), w.weight(shift), axis=-1, epsilon=1e-12
    )


def _attention(w: OnnxWriter, x: str, layer: Layer) -> str:
    width = layer.query.shape[1]
    query = _heads(w, _linear(w, x, layer.query, layer.query_bias), width, [0, 2, 1, 3])
    key = _heads(w, _linear(w, x, layer.key, layer.key_bias), width, [0, 2, 3, 1])
    value = _heads(w, _linear(w, x, layer.value, layer.value_bias), width, [0, 2, 1, 3])
    scores = w.op("Div", w.op("MatMul", query, key), w.constant(np.array(_HEAD**0.5, np.float32)))
    context = w.op(
        "Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3]
    )
    return w.op("Reshape", context, w.constant(np.array([1, SEQUENCE, width])))


def _linear(w: OnnxWriter, x: str, weight: Array, bias: Array) -> str:
    return w.op("Add", w.op("MatMul", x, w.weight(weight)), w.weight(bias))


def _heads(w: OnnxWriter, x: str, width: int, order: list[int]) -> str:
    heads = w.op("Reshape", x, w.constant(np.array([1, SEQUENCE, width // _HEAD, _HEAD])))
    return w.op("Transpose", heads, perm=order)
