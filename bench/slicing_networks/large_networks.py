"""Large networks: base-size ones with random weights in a file of their own, and a graph of
Llama-7B's shapes whose file of weights is one hole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from registry import Field, Made, Network, add
from text_networks import LONG_MASK, MASK, cache_fields, cached, flat, make

SECONDS = 400
ALIGNMENT = 4096
BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
GPT2 = {"vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 2048,
    "tie_word_embeddings": False,
}
LLAMA_7B = LLAMA | {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
}
VIT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "image_size": 224,
    "patch_size": 16,
}
SIZES = {"batch": 1, "sequence": 128, "past": 32}
OTHERS = {"batch": 2, "sequence": 7, "past": 5}
IMAGE = Field("pixel_values", ("batch", 3, 224, 224))


def register() -> None:
    """Registers all networks of this file."""
    _base("bert_base", "bert", "AutoModel", BERT)
    _base("bert_base_dynamic", "bert", "AutoModel", BERT, opens=True)
    _base("gpt2_base", "gpt2", "AutoModelForCausalLM", GPT2, use_cache=False)
    _base("llama_base", "llama", "AutoModelForCausalLM", LLAMA, use_cache=False)
    _base("llama_base_cache", "llama", "AutoModelForCausalLM", LLAMA, opens=True, cache=True)
    _base("vit_base", "vit", "AutoModel", VIT, fields=[IMAGE], add_pooling_layer=False)
    add(
        Network(
            "resnet50_base",
            "large",
            "torchvision resnet50",
            _resnet50,
            external=True,
            seconds=SECONDS,
        )
    )
    for name, opens in (("llama_7b_shape", False), ("llama_7b_shape_dynamic", True)):
        add(
            Network(
                name,
                "large",
                "transformers llama",
                opset=18,
                dynamo=True,
                seconds=SECONDS,
                write=lambda network, path, opens=opens: write_hollow(network, path, opens),
                params=LLAMA_7B,
            )
        )


def _base(
    name: str,
    model_type: str,
    auto: str,
    params: dict[str, Any],
    *,
    opens: bool = False,
    cache: bool = False,
    fields: list[Field] | None = None,
    **fixed: Any,
) -> None:
    def build() -> Made:
        model = make(auto, model_type, params)
        ids = Field("input_ids", ("batch", "sequence"), "int64", "ids", params.get("vocab_size", 0))
        if not cache:
            inputs = fields or [ids, MASK]
            fixed.pop("add_pooling_layer", None)
            module = flat(model, [one.name for one in inputs], **fixed)
            return Made(module, inputs, ["output"], SIZES, OTHERS, opens)
        past = cache_fields(model.config)
        outputs = ["logits", *(one.name.replace("past_key_values", "present") for one in past)]
        module = cached(model, ["input_ids", "attention_mask"])
        sizes = SIZES | {"sequence": 1}
        return Made(module, [ids, LONG_MASK, *past], outputs, sizes, OTHERS, opens)

    add(
        Network(
            name,
            "large",
            f"transformers {model_type}",
            build,
            external=True,
            seconds=SECONDS,
            params=params,
        )
    )


def _resnet50() -> Made:
    import torchvision

    image = Field("image", (1, 3, 224, 224))
    return Made(torchvision.models.resnet50(), [image], ["output"])


def write_hollow(network: Network, path: Path, opens: bool) -> dict[str, Any]:
    """Exports with tensors that hold no numbers; the weights are places in a sparse file.

    Only vectors have numbers: frequencies those of the network, scales 1.
    """
    import onnx_ir as ir
    import torch
    from onnxscript import optimizer
    from torch._subclasses.fake_tensor import FakeTensorMode
    from writing import dynamic_shapes, write_examples

    with FakeTensorMode():
        made = _llama_7b(opens)
        ids = torch.zeros((2, 8), dtype=torch.int64)
        model = torch.onnx.export(
            made.module.eval(),
            (ids, ids),
            input_names=[one.name for one in made.fields],
            output_names=made.outputs,
            opset_version=network.opset,
            dynamo=True,
            optimize=False,
            dynamic_shapes=dynamic_shapes(made),
        ).model
    length = _hollow(model, path.with_suffix(".data"))
    optimizer.optimize(model)
    ir.save(model, path.with_suffix(".onnx"))
    write_examples(made, path)
    return {
        "exporter": "dynamo",
        "opset": network.opset,
        "sizes": made.sizes,
        "dynamic": opens,
        "weights": length // 4,
        "note": "matrices are zero: the file of weights is one hole; not run",
    }


def _llama_7b(opens: bool) -> Made:
    model = make("AutoModelForCausalLM", "llama", LLAMA_7B, "sdpa")
    ids = Field("input_ids", ("batch", "sequence"), "int64", "ids", LLAMA_7B["vocab_size"])
    names = ["input_ids", "attention_mask"]
    sizes = {"batch": 2, "sequence": 8}
    return Made(flat(model, names, use_cache=False), [ids, MASK], ["logits"], sizes, {}, opens)


def _hollow(model: Any, data: Path) -> int:
    """Puts the matrices at places of one sparse file, transposed where their only user transposes
    them; returns the length of that file.
    """
    import onnx_ir as ir

    offset = 0
    for name, value in list(model.graph.initializers.items()):
        shape = [int(one) for one in value.shape]
        if len(shape) < 2:
            value.const_value = ir.tensor(_vector(name, shape), name=name)
            continue
        users = [node for node, _ in value.uses()]
        if [node.op_type for node in users] == ["Transpose"]:
            shape = shape[::-1]
            value.shape = ir.Shape(shape)
            ir.convenience.replace_all_uses_with(users[0].outputs[0], value)
            model.graph.remove(users[0], safe=True)
        length = 4 * int(np.prod(shape))
        value.const_value = ir.ExternalTensor(
            data.name,
            offset,
            length,
            ir.DataType.FLOAT,
            shape=ir.Shape(shape),
            name=name,
            base_dir=data.parent,
        )
        offset += -(-length // ALIGNMENT) * ALIGNMENT
    with open(data, "wb") as file:
        file.truncate(offset)
    return offset


def _vector(name: str, shape: list[int]) -> np.ndarray:
    if name.endswith("inv_freq"):
        return (10000.0 ** (-np.arange(shape[0]) / shape[0])).astype(np.float32)
    return np.ones(shape, np.float32)
