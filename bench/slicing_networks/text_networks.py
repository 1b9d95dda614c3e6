"""Text networks: small configurations of transformers, with fixed and open axes, with and without
inputs for cached keys and values.
"""

from __future__ import annotations

from typing import Any

from registry import Field, Made, Network, add

WORDS = 96
BASE = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SIZES = {"batch": 2, "sequence": 8, "past": 5, "target": 6}
OTHERS = {
    "batch": 3,
    "sequence": 5,
    "past": 9,
    "target": 4,
    "samples": 645,
    "frames": 18,
    "images": 3,
}
"""The second sizes; a decoding step with sequence 1 is among the sizes of the bench."""
IDS = Field("input_ids", ("batch", "sequence"), "int64", "ids", WORDS)
MASK = Field("attention_mask", ("batch", "sequence"), "int64", "mask")
TYPES = Field("token_type_ids", ("batch", "sequence"), "int64", "ids", 2)
POSITIONS = Field("position_ids", ("batch", "sequence"), "int64", "positions")
LONG_MASK = Field("attention_mask", ("batch", "past+sequence"), "int64", "mask")
TARGET = Field("decoder_input_ids", ("batch", "target"), "int64", "ids", WORDS)
ENCODED = Field("encoder_hidden_states", ("batch", "sequence", 64))


def make(
    auto: str,
    model_type: str,
    params: dict[str, Any],
    attention: str = "eager",
    experts: str | None = None,
) -> Any:
    """A model of transformers with random weights; `auto` is one of its AutoModel classes, or the
    name of a class of its own. `experts` names how the products of experts are computed.
    """
    import transformers

    config = transformers.AutoConfig.for_model(model_type, **params)
    config._attn_implementation = attention
    if experts:
        config._experts_implementation = experts
    found = getattr(transformers, auto)
    if auto.startswith("Auto"):
        return found.from_config(config, attn_implementation=attention)
    return found(config)


def flat(model: Any, names: list[str], results: list[str] | None = None, **fixed: Any) -> Any:
    """A module that takes the model's arguments one after the other and returns a plain tuple."""
    from torch import nn

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *arguments: Any) -> Any:
            result = self.model(**dict(zip(names, arguments, strict=True)), **fixed)
            if results is None:
                return result[0]
            return tuple(result[name] for name in results)

    return Flat()


def cached(model: Any, names: list[str]) -> Any:
    """A decoder that takes the keys and values of past tokens, and returns those of all."""
    from torch import nn
    from transformers import DynamicCache

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *arguments: Any) -> Any:
            plain, past = arguments[: len(names)], arguments[len(names) :]
            pairs = list(zip(past[::2], past[1::2], strict=True))
            result = self.model(
                **dict(zip(names, plain, strict=True)),
                past_key_values=DynamicCache(pairs),
                use_cache=True,
            )
            cache = result.past_key_values
            return (result.logits, *(one for at in cache.layers for one in (at.keys, at.values)))

    return Cached()


def cache_fields(config: Any) -> list[Field]:
    """Inputs for the cached keys and values of each layer, named as Optimum names them."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", 0):
        heads = 1
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return [
        Field(f"past_key_values.{layer}.{one}", ("batch", heads, "past", width))
        for layer in range(config.num_hidden_layers)
        for one in ("key", "value")
    ]


def text(
    name: str,
    model_type: str,
    params: dict[str, Any] | None = None,
    *,
    auto: str = "AutoModel",
    kind: str = "encoder",
    fields: tuple[Field, ...] = (IDS, MASK),
    opens: bool = False,
    cache: bool = False,
    attention: str = "eager",
    opset: int = 17,
    dynamo: bool = False,
    base: dict[str, Any] | None = None,
    sizes: dict[str, int] | None = None,
    results: list[str] | None = None,
    **fixed: Any,
) -> None:
    """Registers a network of transformers that reads tokens."""
    given = (BASE if base is None else base) | (params or {})

    def build() -> Made:
        experts = "batched_mm" if kind in ("moe", "state-space") else None
        model = make(auto, model_type, given, attention, experts)
        inputs, outputs = list(fields), list(results or ["output"])
        if cache:
            inputs = [LONG_MASK if one is MASK else one for one in inputs]
            names = [one.name for one in inputs]
            past = cache_fields(model.config)
            outputs = ["logits", *(one.name.replace("past_key_values", "present") for one in past)]
            module = cached(model, names)
            inputs += past
        else:
            module = flat(model, [one.name for one in inputs], results, **fixed)
        used = SIZES | (sizes or {})
        return Made(module, inputs, outputs, used, OTHERS, opens)

    add(
        Network(
            name,
            kind,
            f"transformers {model_type}",
            build,
            opset=opset,
            dynamo=dynamo,
            params={key: value for key, value in given.items() if BASE.get(key) != value}
            | {"attention": attention, "cache": cache},
        )
    )


def decoder(name: str, model_type: str, params: dict[str, Any] | None = None, **how: Any) -> None:
    """Registers a causal language model."""
    how = {"auto": "AutoModelForCausalLM", "kind": "decoder"} | how
    if not how.get("cache"):
        how.setdefault("use_cache", False)
    text(name, model_type, params, **how)


def with_variants(
    register: Any, name: str, model_type: str, params: dict[str, Any], **how: Any
) -> None:
    """The network with fixed axes, with open ones by both exporters, and decoders with a cache."""
    register(name, model_type, params, **how)
    register(f"{name}_dynamic", model_type, params, opens=True, **how)
    attention = "eager" if model_type in EAGER else "sdpa"
    modern = {"opens": True, "dynamo": True, "attention": attention, "opset": 18} | how
    register(f"{name}_dynamic_dynamo", model_type, params, **modern)
    if register is decoder:
        register(f"{name}_cache", model_type, params, opens=True, cache=True, **how)
        register(f"{name}_cache_dynamo", model_type, params, cache=True, **modern)


EAGER = {"gptj", "gemma2", "bloom", "mpnet"}
"""What has no attention by torch's own operator."""
GROUPS = {"num_key_value_heads": 2}
CORE_DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {}),
    "llama_gqa": ("llama", GROUPS),
    "gpt_neox": ("gpt_neox", {}),
    "gptj": ("gptj", {"rotary_dim": 8}),
    "opt": ("opt", {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "bloom": ("bloom", {}),
    "mistral": ("mistral", GROUPS | {"sliding_window": None}),
    "qwen2": ("qwen2", GROUPS),
    "qwen3": ("qwen3", GROUPS | {"head_dim": 16}),
    "phi": ("phi", {}),
    "phi3": ("phi3", GROUPS),
    "gemma": ("gemma", {"num_key_value_heads": 1, "head_dim": 16}),
    "gemma2": ("gemma2", GROUPS | {"head_dim": 16, "sliding_window": 64}),
    "falcon": ("falcon", {"multi_query": True, "new_decoder_architecture": False}),
    "stablelm": ("stablelm", GROUPS),
}
CORE_ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {}),
    "distilbert": ("distilbert", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}),
    "electra": ("electra", {"embedding_size": 32}),
    "mpnet": ("mpnet", {}),
    "albert": ("albert", {"embedding_size": 32}),
}


def register() -> None:
    """Registers all networks of this file, the most common ones first."""
    for name, (model_type, params) in CORE_DECODERS.items():
        with_variants(decoder, name, model_type, params)
    for name, (model_type, params) in CORE_ENCODERS.items():
        with_variants(text, name, model_type, params)
