"""Decoders beyond the most common ones: dense, with experts, and state-space networks."""

from __future__ import annotations

from typing import Any

from registry import Field
from text_networks import BASE, GROUPS, IDS, MASK, POSITIONS, decoder

HEAD = {"head_dim": 16}
DENSE: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neo": (
        "gpt_neo",
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
        },
    ),
    "gpt_bigcode": ("gpt_bigcode", {"multi_query": True}),
    "codegen": ("codegen", {"n_head": 4, "rotary_dim": 8, "n_ctx": 64}),
    "mpt": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "biogpt": ("biogpt", {}),
    "xglm": ("xglm", {"d_model": 64, "ffn_dim": 128, "num_layers": 2, "attention_heads": 4}),
    "persimmon": ("persimmon", {}),
    "olmo": ("olmo", {}),
    "olmo2": ("olmo2", GROUPS),
    "olmo3": ("olmo3", GROUPS | {"sliding_window": 8}),
    "starcoder2": ("starcoder2", GROUPS),
    "granite": ("granite", GROUPS),
    "cohere": ("cohere", GROUPS),
    "cohere2": ("cohere2", GROUPS | {"sliding_window": 8}),
    "smollm3": ("smollm3", GROUPS),
    "exaone4": ("exaone4", GROUPS | {"sliding_window": 8}),
    "glm": ("glm", GROUPS | HEAD),
    "glm4": ("glm4", GROUPS | HEAD),
    "ernie4_5": ("ernie4_5", GROUPS | HEAD),
    "helium": ("helium", GROUPS | HEAD),
    "nemotron": ("nemotron", GROUPS | HEAD),
    "gemma3": ("gemma3_text", GROUPS | HEAD | {"sliding_window": 8}),
    "seed_oss": ("seed_oss", GROUPS | HEAD),
    "arcee": ("arcee", GROUPS | HEAD),
    "apertus": ("apertus", GROUPS),
    "hunyuan": ("hunyuan_v1_dense", GROUPS | HEAD),
    "bitnet": ("bitnet", GROUPS),
    "diffllama": ("diffllama", {"num_key_value_heads": 2}),
    "ministral": ("ministral", GROUPS | HEAD | {"sliding_window": 8}),
    "lfm2": ("lfm2", GROUPS | {"layer_types": ["conv", "full_attention"]}),
    "ctrl": ("ctrl", {"dff": 128}),
    "openai_gpt": ("openai-gpt", {}),
    "gpt_neox_japanese": ("gpt_neox_japanese", {}),
    "modernbert_decoder": ("modernbert-decoder", {}),
    "minicpm3": (
        "minicpm3",
        {
            "q_lora_rank": 32,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "num_key_value_heads": 4,
        },
    ),
}
ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2_6_heads": ("gpt2", {"hidden_size": 96, "num_attention_heads": 6}),
    "gpt2_untied": ("gpt2", {"tie_word_embeddings": False}),
    "gpt2_odd_vocabulary": ("gpt2", {"vocab_size": 97}),
    "llama_mha": ("llama", {"num_key_value_heads": 4}),
    "llama_12_heads": (
        "llama",
        {"hidden_size": 96, "num_attention_heads": 12, "num_key_value_heads": 4},
    ),
    "llama_6_heads_3_kv": (
        "llama",
        {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 3},
    ),
    "llama_one_kv_head": ("llama", {"num_key_value_heads": 1}),
    "llama_biased": (
        "llama",
        GROUPS | {"attention_bias": True, "mlp_bias": True, "intermediate_size": 132},
    ),
    "llama_tied": ("llama", GROUPS | {"tie_word_embeddings": True}),
    "llama_yarn": (
        "llama",
        GROUPS
        | {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "mistral_window": ("mistral", GROUPS | {"sliding_window": 4}),
    "qwen2_5_heads": (
        "qwen2",
        {"hidden_size": 80, "num_attention_heads": 5, "num_key_value_heads": 5},
    ),
    "falcon_new": (
        "falcon",
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "gpt_neox_sequential": ("gpt_neox", {"use_parallel_residual": False}),
    "opt_projected": ("opt", {"ffn_dim": 128, "word_embed_proj_dim": 32}),
}
EXPERTS = GROUPS | {"num_experts_per_tok": 2, "num_experts": 4}
MOE: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("mixtral", GROUPS | {"num_local_experts": 4}),
    "qwen2_moe": (
        "qwen2_moe",
        EXPERTS | {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 64},
    ),
    "qwen3_moe": ("qwen3_moe", EXPERTS | HEAD | {"moe_intermediate_size": 32}),
    "olmoe": ("olmoe", EXPERTS),
    "granitemoe": ("granitemoe", GROUPS | {"num_local_experts": 4}),
    "phimoe": ("phimoe", GROUPS | {"num_local_experts": 4}),
    "gpt_oss": (
        "gpt_oss",
        GROUPS | HEAD | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {
            "num_key_value_heads": 4,
            "q_lora_rank": 32,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 2,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
        },
    ),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        GROUPS
        | {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 32,
            "moe_layer_start_index": 1,
        },
    ),
    "glm4_moe": (
        "glm4_moe",
        EXPERTS
        | HEAD
        | {
            "n_routed_experts": 4,
            "moe_intermediate_size": 32,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
        },
    ),
    "hunyuan_moe": ("hunyuan_v1_moe", EXPERTS | HEAD | {"moe_topk": 2, "num_experts": 4}),
    "jetmoe": (
        "jetmoe",
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "kv_channels": 16,
            "num_key_value_heads": 2,
        },
    ),
    "flex_olmo": ("flex_olmo", EXPERTS),
    "dots1": (
        "dots1",
        EXPERTS
        | {
            "n_routed_experts": 4,
            "moe_intermediate_size": 32,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "n_shared_experts": 1,
        },
    ),
    "minimax_m2": ("minimax_m2", EXPERTS | HEAD | {"num_local_experts": 4, "rotary_dim": 8}),
}
STATES = {"state_size": 8, "conv_kernel": 4, "expand": 2}
STATE_SPACE: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("mamba", STATES),
    "falcon_mamba": ("falcon_mamba", STATES),
    "mamba2": (
        "mamba2",
        STATES | {"num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
    ),
    "recurrent_gemma": (
        "recurrent_gemma",
        GROUPS | {"lru_width": 64, "attention_window_size": 64, "num_hidden_layers": 3},
    ),
    "jamba": (
        "jamba",
        GROUPS
        | {
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
            "mamba_dt_rank": 8,
            "num_experts": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
        },
    ),
    "bamba": (
        "bamba",
        GROUPS
        | {
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_n_groups": 1,
            "mamba_d_state": 8,
            "mamba_chunk_size": 8,
            "attn_layer_indices": [1],
        },
    ),
    "zamba2": (
        "zamba2",
        {
            "mamba_d_state": 8,
            "mamba_headdim": 16,
            "n_mamba_heads": 8,
            "mamba_ngroups": 1,
            "chunk_size": 8,
            "num_mem_blocks": 1,
            "layers_block_type": ["mamba", "hybrid"],
            "hybrid_layer_ids": [1],
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "attention_head_dim": 32,
        },
    ),
    "falcon_h1": (
        "falcon_h1",
        GROUPS
        | {
            "mamba_d_ssm": 128,
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_n_groups": 1,
            "mamba_d_state": 8,
            "mamba_chunk_size": 8,
        },
    ),
    "granitemoehybrid": (
        "granitemoehybrid",
        GROUPS
        | {
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_n_groups": 1,
            "mamba_d_state": 8,
            "mamba_chunk_size": 8,
            "layer_types": ["mamba", "attention"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 64,
        },
    ),
    "qwen3_next": (
        "qwen3_next",
        EXPERTS
        | HEAD
        | {
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "rwkv": ("rwkv", {"attention_hidden_size": 64, "context_length": 64}),
    "xlstm": ("xlstm", {"num_heads": 4, "num_blocks": 2, "chunk_size": 8}),
}
OPEN = (
    "gpt_bigcode",
    "olmo2",
    "starcoder2",
    "granite",
    "cohere",
    "gemma3",
    "glm4",
    "smollm3",
    "llama_12_heads",
    "llama_6_heads_3_kv",
    "gpt2_6_heads",
    "mistral_window",
    "falcon_new",
)
"""Those that are written with open axes and a cache as well."""
ALONE = {"rwkv", "xlstm", "openai_gpt"}
"""What takes tokens only, or is wrong with a mask."""

NEWER = {
    "cohere",
    "cohere2",
    "glm",
    "glm4",
    "ernie4_5",
    "helium",
    "apertus",
    "diffllama",
    "ernie4_5_moe",
    "jetmoe",
    "mamba2",
    "bamba",
    "zamba2",
    "falcon_h1",
    "granitemoehybrid",
    "qwen3_next",
}
"""What torch's older exporter refuses, or writes wrongly."""


def register() -> None:
    """Registers all networks of this file."""
    for kind, table in (("decoder", DENSE), ("decoder", ODD), ("moe", MOE)):
        for name, (model_type, params) in table.items():
            fields = (IDS,) if name in ALONE else (IDS, MASK)
            decoder(name, model_type, params, kind=kind, fields=fields, **_exporter(name))
            if name in OPEN:
                how = {"opens": True} | _exporter(name)
                decoder(f"{name}_dynamic", model_type, params, **how)
                decoder(f"{name}_cache", model_type, params, cache=True, **how)
    for name, (model_type, params) in STATE_SPACE.items():
        fields = (IDS,) if name in ALONE else (IDS, MASK)
        how = {"kind": "state-space", "fields": fields} | _exporter(name)
        decoder(name, model_type, params, **how)
    for name in ("mixtral", "qwen3_moe"):
        model_type, params = MOE[name]
        how = {"kind": "moe", "opens": True}
        decoder(f"{name}_dynamic", model_type, params, **how)
        decoder(f"{name}_cache", model_type, params, cache=True, **how)
        decoder(f"{name}_dynamo", model_type, params, dynamo=True, opset=18, **how)
    _versions()
    _other_inputs()


def _exporter(name: str) -> dict[str, Any]:
    return {"dynamo": True, "opset": 18} if name in NEWER else {}


def _versions() -> None:
    """Some networks in other versions of the operators."""
    for opset in (13, 15, 20):
        decoder(f"gpt2_opset{opset}", "gpt2", {}, opset=opset)
        decoder(f"llama_opset{opset}", "llama", GROUPS, opset=opset)
    for opset in (20, 21, 23):
        modern: dict[str, Any] = {
            "opens": True,
            "dynamo": True,
            "attention": "sdpa",
            "opset": opset,
        }
        decoder(f"gpt2_dynamo_opset{opset}", "gpt2", {}, **modern)
        if opset == 23:  # its RotaryEmbedding takes a row of angles for each of the batch
            modern["fields"] = (IDS, MASK, POSITIONS)
        decoder(f"llama_dynamo_opset{opset}", "llama", GROUPS, **modern)
        decoder(f"llama_cache_dynamo_opset{opset}", "llama", GROUPS, cache=True, **modern)


def _other_inputs() -> None:
    """Positions as an input, embeddings instead of tokens, and no mask."""
    fields = (IDS, MASK, POSITIONS)
    modern: dict[str, Any] = {"opens": True, "dynamo": True, "opset": 18}
    for name, params in (("gpt2", {}), ("llama", GROUPS), ("qwen2", GROUPS)):
        decoder(f"{name}_positions_cache", name, params, fields=fields, opens=True, cache=True)
        decoder(f"{name}_no_mask", name, params, fields=(IDS,), **modern)
        embedded = Field("inputs_embeds", ("batch", "sequence", BASE["hidden_size"]))
        decoder(f"{name}_embedded", name, params, fields=(embedded, MASK), opens=True)
    for name, params in (("gpt2", {}), ("llama", GROUPS)):
        decoder(f"{name}_sdpa", name, params, attention="sdpa", opens=True)
        decoder(f"{name}_step", name, params, cache=True, sizes={"sequence": 1})
