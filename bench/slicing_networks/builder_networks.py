"""Decoders in the form that onnxruntime-genai's model builder writes: grouped attention, rotation
and normalisation as operators of onnxruntime's own domain, and inputs for cached keys and values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from registry import Field, Network, add
from text_networks import IDS, LONG_MASK, SIZES

DOMAIN = "com.microsoft"
SEED = 14
WORDS = 96
WIDTH = 64
HEADS = 4
INNER = 128
LENGTH = 64
OPSET = 21
VARIANTS: dict[str, dict[str, Any]] = {
    "builder_llama": {"groups": 2},
    "builder_llama_mha": {"groups": 4},
    "builder_llama_one_kv_head": {"groups": 1},
    "builder_llama_packed": {"groups": 2, "packed": True},
    "builder_llama_12_heads": {"groups": 4, "heads": 12, "width": 192},
    "builder_llama_biased": {"groups": 2, "biased": True},
    "builder_rotary": {"groups": 2, "rotary_apart": True},
    "builder_multi_head": {"groups": 4, "attention": "MultiHeadAttention", "rotary_apart": True},
    "builder_gemma": {"groups": 1, "activation": "Gelu"},
    "builder_mixtral": {"groups": 2, "experts": 4},
}


def register() -> None:
    """Registers all networks of this file."""
    for name, params in VARIANTS.items():
        kind = "moe" if "experts" in params else "decoder"
        add(
            Network(
                name,
                kind,
                "onnxruntime-genai's form",
                opset=OPSET,
                write=_write,
                params=params,
            )
        )


def _write(network: Network, path: Path) -> dict[str, Any]:
    import onnx
    import onnxruntime as ort
    from writing import describe, draw

    decoder = _Decoder(**network.params)
    model = decoder.model()
    onnx.save(model, path.with_suffix(".onnx"))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        path.with_suffix(".onnx"), options, providers=["CPUExecutionProvider"]
    )
    sizes = SIZES | {"sequence": 1}
    others = SIZES | {"past": 0, "sequence": 6}
    # Keys of tokens that a mask hides in the middle have no form here: the mask is all ones.
    for used in (others, sizes):
        feeds = {key: one.numpy() for key, one in draw(decoder.fields, used).items()}
        for got in session.run(None, feeds):
            if not np.isfinite(got).all():
                raise ValueError("onnxruntime returns numbers that are not finite")
    np.savez(path.with_suffix(".npz"), **feeds)
    return {
        "exporter": "by hand",
        "opset": OPSET,
        "sizes": sizes,
        "other_sizes": others,
        "dynamic": True,
        "inputs": {one.name: describe(one) for one in decoder.fields},
    }


class _Decoder:
    """A decoder of two layers, written node by node."""

    def __init__(
        self,
        groups: int,
        heads: int = HEADS,
        width: int = WIDTH,
        packed: bool = False,
        biased: bool = False,
        rotary_apart: bool = False,
        attention: str = "GroupQueryAttention",
        activation: str = "Sigmoid",
        experts: int = 0,
    ) -> None:
        self.heads, self.groups, self.width = heads, groups, width
        self.head = width // heads
        self.packed, self.biased, self.rotary_apart = packed, biased, rotary_apart
        self.attention, self.activation, self.experts = attention, activation, experts
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(SEED)
        cache = ("batch", groups, "past", self.head)
        ones = Field("attention_mask", LONG_MASK.shape, "int64", "ones")
        self.fields = [IDS, ones] + [
            Field(f"past_key_values.{layer}.{one}", cache)
            for layer in range(2)
            for one in ("key", "value")
        ]

    def model(self) -> Any:
        from onnx import TensorProto, helper

        kinds = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
        inputs = [
            helper.make_tensor_value_info(one.name, kinds[one.dtype], one.shape)
            for one in self.fields
        ]
        self._body()
        total = ("batch", self.groups, "past+sequence", self.head)
        outputs = [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("batch", "sequence", WORDS))
        ] + [
            helper.make_tensor_value_info(f"present.{layer}.{one}", TensorProto.FLOAT, total)
            for layer in range(2)
            for one in ("key", "value")
        ]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def _body(self) -> None:
        self._lengths()
        self._rotation()
        tokens = self._weight("embed_tokens", WORDS, self.width)
        hidden = self._add("Gather", [tokens, "input_ids"], "embedded")
        scale = self._scale("layers.0.input_norm")
        normal = self._add(
            "SimplifiedLayerNormalization",
            [hidden, scale],
            "layers.0.normal",
            epsilon=1e-5,
            axis=-1,
        )
        for layer in range(2):
            name = f"layers.{layer}"
            mixed = self._attend(layer, normal)
            normal, hidden = self._skip(hidden, mixed, f"{name}.post_norm")
            after = f"layers.{layer + 1}.input_norm" if layer == 0 else "norm"
            block = self._experts if self.experts else self._feed_forward
            normal, hidden = self._skip(hidden, block(name, normal), after)
        self._matmul("lm_head", normal, self.width, WORDS, "logits")

    def _lengths(self) -> None:
        """What the attention operator wants to know of lengths, computed from the mask."""
        self._constant("one", np.array([1], np.int64))
        self._constant("at_one", np.array(1, np.int64))
        counted = self._add("ReduceSum", ["attention_mask", "one"], "counted", keepdims=0)
        less = self._add("Sub", [counted, "one"], "counted_less")
        self._add("Cast", [less], "seqlens_k", to=6)
        shape = self._add("Shape", ["attention_mask"], "mask_shape")
        total = self._add("Gather", [shape, "at_one"], "total", axis=0)
        self._add("Cast", [total], "total_length", to=6)

    def _rotation(self) -> None:
        steps = 10000.0 ** (-np.arange(0, self.head, 2) / self.head)
        angles = np.outer(np.arange(LENGTH), steps)
        self._constant("cos_cache", np.cos(angles).astype(np.float32))
        self._constant("sin_cache", np.sin(angles).astype(np.float32))
        if self.rotary_apart:
            ids = self._add("Shape", ["input_ids"], "ids_shape")
            new = self._add("Gather", [ids, "at_one"], "new", axis=0)
            past = self._add("Sub", ["total", new], "past_length")
            self._constant("zero", np.array(0, np.int64))
            row = self._add("Range", [past, "total", "at_one"], "row")
            first = self._add("Unsqueeze", [row, "zero_axis"], "one_row")
            self._constant("zero_axis", np.array([0], np.int64))
            self._add("Expand", [first, ids], "positions")

    def _attend(self, layer: int, hidden: str) -> str:
        name = f"layers.{layer}.attention"
        wide, narrow = self.width, self.groups * self.head
        if self.packed:
            joined = self._matmul(f"{name}.qkv", hidden, self.width, wide + 2 * narrow)
            parts = [joined, "", ""]
        else:
            parts = [
                self._matmul(f"{name}.{one}", hidden, self.width, size)
                for one, size in (("q", wide), ("k", narrow), ("v", narrow))
            ]
        if self.rotary_apart:
            turn = ("cos_cache", "sin_cache")
            for at in (0, 1):
                parts[at] = self._add(
                    "RotaryEmbedding",
                    [parts[at], "positions", *turn],
                    f"{name}.turned{at}",
                    domain=DOMAIN,
                )
        past = [f"past_key_values.{layer}.{one}" for one in ("key", "value")]
        present = [f"present.{layer}.{one}" for one in ("key", "value")]
        mixed = f"{name}.mixed"
        if self.attention == "MultiHeadAttention":
            self._add(
                self.attention,
                [*parts, "", "", "", *past],
                [mixed, *present],
                domain=DOMAIN,
                num_heads=self.heads,
                unidirectional=1,
            )
        else:
            turn = () if self.rotary_apart else ("cos_cache", "sin_cache")
            self._add(
                self.attention,
                [*parts, *past, "seqlens_k", "total_length", *turn],
                [mixed, *present],
                domain=DOMAIN,
                num_heads=self.heads,
                kv_num_heads=self.groups,
                do_rotary=int(not self.rotary_apart),
                scale=float(self.head**-0.5),
            )
        return self._matmul(f"{name}.o", mixed, self.width, self.width)

    def _feed_forward(self, name: str, hidden: str) -> str:
        gate = self._matmul(f"{name}.gate", hidden, self.width, INNER)
        up = self._matmul(f"{name}.up", hidden, self.width, INNER)
        if self.activation == "Sigmoid":
            slope = self._add("Sigmoid", [gate], f"{name}.slope")
            active = self._add("Mul", [gate, slope], f"{name}.active")
        else:
            active = self._add("Gelu", [gate], f"{name}.active", approximate="tanh")
        inner = self._add("Mul", [active, up], f"{name}.inner")
        return self._matmul(f"{name}.down", inner, INNER, self.width)

    def _experts(self, name: str, hidden: str) -> str:
        self._constant(f"{name}.flat", np.array([-1, self.width], np.int64))
        rows = self._add("Reshape", [hidden, f"{name}.flat"], f"{name}.rows")
        router = self._matmul(f"{name}.router", rows, self.width, self.experts)
        count = self.experts
        first = self._weight(f"{name}.experts.1", count, INNER, self.width)
        second = self._weight(f"{name}.experts.2", count, self.width, INNER)
        done = self._add(
            "MoE",
            [rows, router, first, "", second, ""],
            f"{name}.chosen",
            domain=DOMAIN,
            k=2,
            activation_type="silu",
            normalize_routing_weights=1,
        )
        shape = self._add("Shape", [hidden], f"{name}.shape")
        return self._add("Reshape", [done, shape], f"{name}.mixture")

    def _skip(self, hidden: str, change: str, name: str) -> tuple[str, str]:
        """The sum of both, normalised, and the sum itself."""
        outputs = [f"{name}.normal", "", "", f"{name}.sum"]
        inputs = [hidden, change, self._scale(name)]
        last = name == "norm"
        self._add(
            "SkipSimplifiedLayerNormalization",
            inputs,
            outputs[:1] if last else outputs,
            domain=DOMAIN,
            epsilon=1e-5,
        )
        return outputs[0], outputs[3]

    def _add(self, operator: str, inputs: list[str], outputs: Any, **attributes: Any) -> Any:
        from onnx import helper

        names = [outputs] if isinstance(outputs, str) else outputs
        name = f"/{names[0]}/{operator}"
        self.nodes.append(helper.make_node(operator, inputs, names, name=name, **attributes))
        return names[0]

    def _matmul(self, name: str, left: str, rows: int, columns: int, result: str = "") -> str:
        product = result or f"{name}.product"
        self._add("MatMul", [left, self._weight(f"{name}.weight", rows, columns)], product)
        if not self.biased or result:
            return product
        bias = self._weight(f"{name}.bias", columns)
        return self._add("Add", [product, bias], f"{name}.biased")

    def _weight(self, name: str, *shape: int) -> str:
        numbers = self.random.standard_normal(shape) / np.sqrt(self.width)
        return self._constant(name, numbers.astype(np.float32))

    def _scale(self, name: str) -> str:
        numbers = 1 + 0.1 * self.random.standard_normal(self.width)
        return self._constant(f"{name}.weight", numbers.astype(np.float32))

    def _constant(self, name: str, numbers: np.ndarray) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(numbers, name))
        return name
