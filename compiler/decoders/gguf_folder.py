"""Folder of a GGUF file: writes the Hugging Face folder that a GGUF file was made of.

The weights get their names back, the notes become `config.json`, `generation_config.json` and the
tokenizer. Weights of fewer bits are written as numbers of 32 bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.errors import ModelError
from .gguf_file import GgufFile
from .gguf_tokenizer import tokenizer_of, tokenizer_settings

Weight = NDArray[np.float32]


_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
}
_OPTIONS = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "num_key_value_heads": "attention.head_count_kv",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "sliding_window": "attention.sliding_window",
    "head_dim": "attention.key_length",
}
_FREQUENCIES = "rope_freqs.weight"
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""How Llama 3 scales rotary frequencies; a file has the factors alone."""

_WHOLE = {"output_norm": "model.norm", "output": "lm_head"}
_WHOLE["token_embd"] = "model.embed_tokens"  # nosec B105  # the name of a tensor
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""By the name of a layer's weight in a file, that in the folder."""

_NORMED_HEADS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_FUSED = {
    **{name: one for name, one in _LAYER.items() if name not in ("attn_q", "attn_k", "attn_v")},
    "attn_qkv": "self_attn.qkv_proj",
    "ffn_up": "mlp.gate_up_proj",
}
del _FUSED["ffn_gate"]
_MORE_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


@dataclass(frozen=True)
class _Family:
    """How the decoders of one architecture differ: the `kind` and class of their configuration,
    the weights of a layer, whether rows of queries and keys were reordered, and norms increased by
    one.
    """

    kind: str
    model: str
    layer: Mapping[str, str] = field(default_factory=lambda: _LAYER)
    reordered: bool = False
    norms_raised: bool = False


_FAMILIES = {
    "llama": _Family("llama", "LlamaForCausalLM", reordered=True),
    "qwen2": _Family("qwen2", "Qwen2ForCausalLM"),
    "qwen3": _Family("qwen3", "Qwen3ForCausalLM", {**_LAYER, **_NORMED_HEADS}),
    "phi3": _Family("phi3", "Phi3ForCausalLM", _FUSED),
    "gemma": _Family("gemma", "GemmaForCausalLM", norms_raised=True),
    "gemma2": _Family("gemma2", "Gemma2ForCausalLM", {**_LAYER, **_MORE_NORMS}, norms_raised=True),
}
"""By the name of the architecture in a file."""


def write_folder(file: GgufFile, folder: str) -> None:
    """Write the folder of a file. Raises ModelError for what cannot be written as one."""
    from safetensors.numpy import save_file

    family = _FAMILIES.get(file.architecture)
    if family is None:
        raise ModelError(
            f"{file.path}: is of the architecture '{file.architecture}', expected one of "
            f"{', '.join(_FAMILIES)}. Generate from a Hugging Face folder of the model."
        )
    config = _config(file, family)
    weights = _weights(file, family, config)
    _write(folder, "config.json", config)
    ends = [file.find(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    kept = {one: None for one in ends if one is not None}
    _write(folder, "generation_config.json", {**_ids(file), "eos_token_id": [*kept]})
    tokenizer_of(file).save(os.path.join(folder, "tokenizer.json"))
    _write(folder, "tokenizer_config.json", tokenizer_settings(file))
    save_file(weights, os.path.join(folder, "model.safetensors"), {"format": "pt"})


def _config(file: GgufFile, family: _Family) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": [family.model],
        "model_type": family.kind,
        "vocab_size": len(file.note("tokenizer.ggml.tokens", list)),
        "tie_word_embeddings": "output.weight" not in file.names,
        "dtype": "float32",
        **_ids(file),
    }
    config.update({name: file.size(key) for name, key in _SIZES.items()})
    found = {name: file.own(key) for name, key in _OPTIONS.items()}
    config.update({name: one for name, one in found.items() if one is not None})
    whole = config["hidden_size"] // config["num_attention_heads"]
    config.setdefault("head_dim", file.own("rope.dimension_count") or whole)
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    config["rope_parameters"] = _rope(file, config["head_dim"])
    if family.kind == "gemma2":  # the scale of 27 B, which has 46 layers, is another one
        large = config["num_hidden_layers"] == 46
        config["query_pre_attn_scalar"] = whole if large else config["head_dim"]
    if family.kind == "llama" and "sliding_window" in config:
        config.update(architectures=["MistralForCausalLM"], model_type="mistral")
    if family.kind == "phi3":
        config["original_max_position_embeddings"] = config["max_position_embeddings"]
    return config


def _ids(file: GgufFile) -> dict[str, int]:
    """The ids of tokens with a meaning."""
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    found = {
        f"{name}_token_id": file.find(f"tokenizer.ggml.{one}_token_id")
        for name, one in names.items()
    }
    return {name: one for name, one in found.items() if one is not None}


def _rope(file: GgufFile, size: int) -> dict[str, Any]:
    """The rotary embedding. Raises ModelError for scalings that are not known."""
    theta = file.own("rope.freq_base") or 10000.0
    kind = file.own("rope.scaling.type")
    if _FREQUENCIES in file.names:
        return _llama3(file, theta, size)
    if kind == "linear":
        return {"rope_type": kind, "rope_theta": theta, "factor": file.own("rope.scaling.factor")}
    if kind not in (None, "none"):
        raise ModelError(
            f"{file.path}: scales its rotary embedding by '{kind}', expected none or linear. "
            "Generate from a Hugging Face folder of the model."
        )
    return {"rope_type": "default", "rope_theta": theta}


def _llama3(file: GgufFile, theta: float, size: int) -> dict[str, Any]:
    """Llama 3's scaling, of which a file has the factor of each frequency. Raises ModelError for
    other factors.
    """
    factors = next(numbers for name, numbers in file.weights() if name == _FREQUENCIES)
    factor = float(factors.max())
    periods = 2 * np.pi * theta ** (np.arange(0, size, 2) / size)
    low, high, original = _LLAMA3.values()
    smooth = np.clip((original / periods - low) / (high - low), 0, 1)
    if not np.allclose(1 / ((1 - smooth) / factor + smooth), factors, rtol=1e-3):
        raise ModelError(
            f"{file.path}: {_FREQUENCIES} has other factors than Llama 3's scaling by {factor:g}. "
            "Generate from a Hugging Face folder of the model."
        )
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, **_LLAMA3}


def _weights(file: GgufFile, family: _Family, config: Mapping[str, Any]) -> dict[str, Weight]:
    """All weights under the names of the folder. Raises ModelError for unknown and missing ones."""
    names = dict(_WHOLE)
    for at in range(config["num_hidden_layers"]):
        names.update(
            {f"blk.{at}.{one}": f"model.layers.{at}.{to}" for one, to in family.layer.items()}
        )
    _compare(file, names, config["tie_word_embeddings"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    found: dict[str, Weight] = {}
    for name, numbers in file.weights():
        base, _, last = name.rpartition(".")
        if name == _FREQUENCIES:
            continue
        part = names[base].rpartition(".")[2]
        if family.reordered and part in heads:
            numbers = _in_order(numbers, heads[part])
        if family.norms_raised and part.endswith("norm"):
            numbers = numbers - 1
        found[f"{names[base]}.{last}"] = np.ascontiguousarray(numbers)
    return found


def _compare(file: GgufFile, names: Collection[str], tied: bool) -> None:
    """Raise ModelError where a file has other weights than its architecture."""
    given = [one for one in file.names if one != _FREQUENCIES]
    unknown = [one for one in given if one.rpartition(".")[0] not in names]
    missing = {f"{one}.weight" for one in names if not (tied and one == "output")} - {*given}
    if unknown or missing:
        what = f"has a weight '{unknown[0]}'" if unknown else f"lacks the weight '{min(missing)}'"
        raise ModelError(
            f"{file.path}: {what}, as no decoder of the architecture '{file.architecture}' is "
            "known to. Generate from a Hugging Face folder of the model."
        )


def _in_order(numbers: Weight, heads: int) -> Weight:
    """Rows of queries or keys as they were: a file has the halves of each head interleaved."""
    rows = numbers.reshape(heads, -1, 2, *numbers.shape[1:])
    return rows.swapaxes(1, 2).reshape(numbers.shape)


def _write(folder: str, name: str, entries: Mapping[str, Any]) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(entries, file, ensure_ascii=False, indent=1)
