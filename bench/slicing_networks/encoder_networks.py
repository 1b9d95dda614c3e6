"""Encoders beyond the most common ones, and networks of an encoder and a decoder."""

from __future__ import annotations

from typing import Any

from registry import Field, Made, Network, add
from text_networks import (
    BASE,
    ENCODED,
    IDS,
    MASK,
    OTHERS,
    SIZES,
    TARGET,
    TYPES,
    WORDS,
    make,
    text,
)

ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "xlm_roberta": ("xlm-roberta", {}),
    "xlm_roberta_xl": ("xlm-roberta-xl", {}),
    "roberta_prelayernorm": ("roberta-prelayernorm", {}),
    "camembert": ("camembert", {}),
    "deberta": ("deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta_v2": (
        "deberta-v2",
        {
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
    ),
    "megatron_bert": ("megatron-bert", {}),
    "mobilebert": (
        "mobilebert",
        {"embedding_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 2},
    ),
    "modernbert": ("modernbert", {"global_attn_every_n_layers": 2}),
    "eurobert": ("eurobert", {"num_key_value_heads": 4}),
    "nomic_bert": ("nomic_bert", {}),
    "squeezebert": (
        "squeezebert",
        {"embedding_size": 64, "q_groups": 2, "k_groups": 2, "v_groups": 2},
    ),
    "convbert": ("convbert", {"embedding_size": 32, "num_groups": 1}),
    "roformer": ("roformer", {"embedding_size": 32}),
    "rembert": ("rembert", {"input_embedding_size": 32, "output_embedding_size": 32}),
    "ernie": ("ernie", {}),
    "esm": ("esm", {"position_embedding_type": "rotary", "mask_token_id": 3}),
    "data2vec_text": ("data2vec-text", {}),
    "splinter": ("splinter", {}),
    "ibert": ("ibert", {}),
    "fnet": ("fnet", {}),
    "nystromformer": ("nystromformer", {"num_landmarks": 8, "segment_means_seq_len": 8}),
    "yoso": ("yoso", {"use_expectation": True}),
    "xmod": ("xmod", {"languages": ["en_XX"], "default_language": "en_XX"}),
    "xlm": ("xlm", {"emb_dim": 64, "n_layers": 2, "n_heads": 4}),
    "flaubert": ("flaubert", {"emb_dim": 64, "n_layers": 2, "n_heads": 4}),
    "xlnet": ("xlnet", {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128}),
    "funnel": (
        "funnel",
        {
            "block_sizes": [1, 1],
            "d_model": 64,
            "n_head": 4,
            "d_head": 16,
            "d_inner": 128,
            "num_decoder_layers": 1,
        },
    ),
    "layoutlm": ("layoutlm", {}),
    "lilt": ("lilt", {"hidden_size": 96, "channel_shrink_ratio": 4}),
    "big_bird": ("big_bird", {"attention_type": "original_full"}),
    "roc_bert": ("roc_bert", {"enable_pronunciation": False, "enable_shape": False}),
    "bert_generation": ("bert-generation", {}),
    "jina_v3": ("jina_embeddings_v3", {}),
    "bert_12_heads": ("bert", {"hidden_size": 96, "num_attention_heads": 12}),
    "bert_5_heads": ("bert", {"hidden_size": 80, "num_attention_heads": 5}),
    "albert_groups": ("albert", {"embedding_size": 32, "num_hidden_groups": 2}),
}
BOXES = Field("bbox", ("batch", "sequence", 4), "int64", "boxes", 100)
OPEN_ENCODERS = ("deberta_v2", "xlm_roberta", "modernbert", "bert_12_heads", "megatron_bert")
HEADS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert_masked": ("bert", "AutoModelForMaskedLM", {}),
    "bert_classifier": ("bert", "AutoModelForSequenceClassification", {"num_labels": 5}),
    "roberta_tokens": ("roberta", "AutoModelForTokenClassification", {"num_labels": 7}),
    "distilbert_masked": (
        "distilbert",
        "AutoModelForMaskedLM",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    ),
    "albert_masked": ("albert", "AutoModelForMaskedLM", {"embedding_size": 32}),
    "deberta_v2_masked": ("deberta-v2", "AutoModelForMaskedLM", {}),
    "electra_classifier": (
        "electra",
        "AutoModelForSequenceClassification",
        {"embedding_size": 32},
    ),
}
T5 = {
    "vocab_size": WORDS,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}
BART = {
    "vocab_size": WORDS,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("t5", T5),
    "bart": ("bart", BART),
    "marian": ("marian", BART | {"decoder_vocab_size": WORDS}),
    "pegasus": ("pegasus", BART),
    "m2m_100": ("m2m_100", BART),
    "t5_gated": ("t5", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("mt5", T5 | {"feed_forward_proj": "gated-gelu"}),
    "umt5": ("umt5", T5),
    "t5_6_heads": ("t5", T5 | {"num_heads": 6}),
    "mbart": ("mbart", BART),
    "blenderbot": ("blenderbot", BART),
    "blenderbot_small": ("blenderbot-small", BART),
    "plbart": ("plbart", BART),
    "fsmt": (
        "fsmt",
        BART | {"src_vocab_size": WORDS, "tgt_vocab_size": WORDS, "langs": ["en", "de"]},
    ),
    "prophetnet": (
        "prophetnet",
        {
            "vocab_size": WORDS,
            "hidden_size": 64,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "pegasus_x": ("pegasus_x", BART | {"block_size": 4, "num_global_tokens": 2}),
    "longt5": ("longt5", T5 | {"encoder_attention_type": "local", "local_radius": 3}),
    "switch_transformers": (
        "switch_transformers",
        T5 | {"num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    ),
    "bigbird_pegasus": ("bigbird_pegasus", BART | {"attention_type": "original_full"}),
}
OPEN_SEQ2SEQ = ("t5", "bart", "marian", "m2m_100")


def register() -> None:
    """Registers all networks of this file."""
    for name in ("t5", "bart", "marian", "pegasus"):
        _seq2seq(name, *SEQ2SEQ[name])
    for name in OPEN_SEQ2SEQ:
        _seq2seq(f"{name}_dynamic", *SEQ2SEQ[name], opens=True)
    for name in ("t5", "bart"):
        _seq2seq(f"{name}_dynamic_dynamo", *SEQ2SEQ[name], opens=True, dynamo=True, opset=18)
        _decoder_with_cache(f"{name}_decoder_cache", *SEQ2SEQ[name])
        _seq2seq_encoder(f"{name}_encoder", *SEQ2SEQ[name])
    for name, (model_type, params) in ENCODERS.items():
        fields = (IDS, BOXES, MASK) if name in ("layoutlm", "lilt") else (IDS, MASK)
        fields = (IDS,) if name == "fnet" else fields
        fields = (IDS, MASK, TYPES) if name in ("ernie", "bert_12_heads") else fields
        how: dict[str, Any] = {"base": {"vocab_size": WORDS}} if name in ("xlnet", "funnel") else {}
        how |= {"auto": "FunnelModel"} if name == "funnel" else {}
        how |= {"dynamo": True, "opset": 18} if name == "fnet" else {}
        text(name, model_type, params, fields=fields, **how)
        if name in OPEN_ENCODERS:
            text(f"{name}_dynamic", model_type, params, fields=fields, opens=True)
    for name, (model_type, auto, params) in HEADS.items():
        text(name, model_type, params, auto=auto)
    for name, one in SEQ2SEQ.items():
        if name not in ("t5", "bart", "marian", "pegasus"):
            _seq2seq(name, *one)
    for opset in (13, 20):
        text(f"bert_opset{opset}", "bert", opset=opset)
    for opset in (20, 21, 23):
        text(
            f"bert_dynamo_opset{opset}", "bert", opens=True, dynamo=True, attention="sdpa",
            opset=opset,
        )  # fmt: skip
    text("bert_all_inputs_dynamic", "bert", fields=(IDS, MASK, TYPES), opens=True, opset=14)
    text("bert_pooled", "bert", results=["last_hidden_state", "pooler_output"])


def _seq2seq(name: str, model_type: str, params: dict[str, Any], **how: Any) -> None:
    text(
        name,
        model_type,
        params,
        base={},
        auto="AutoModelForSeq2SeqLM",
        kind="encoder-decoder",
        fields=(IDS, MASK, TARGET),
        use_cache=False,
        **how,
    )


def _seq2seq_encoder(name: str, model_type: str, params: dict[str, Any]) -> None:
    """The encoder alone."""

    def build() -> Made:
        from text_networks import flat

        model = make("AutoModelForSeq2SeqLM", model_type, params).get_encoder()
        module = flat(model, ["input_ids", "attention_mask"])
        return Made(module, [IDS, MASK], ["encoded"], SIZES, OTHERS, True)

    add(Network(name, "encoder-decoder", f"transformers {model_type}", build, params=params))


def _decoder_with_cache(name: str, model_type: str, params: dict[str, Any]) -> None:
    """The decoder with the cached keys and values of its own tokens and of the encoder's."""

    def build() -> Made:
        return decoder_with_cache(
            make("AutoModelForSeq2SeqLM", model_type, params),
            layers=2,
            heads=4,
            width=16,
            target=Field("decoder_input_ids", ("batch", "target"), "int64", "ids", WORDS),
            extra=[MASK, ENCODED],
        )

    add(Network(name, "encoder-decoder", f"transformers {model_type}", build, params=params))


def decoder_with_cache(
    model: Any, layers: int, heads: int, width: int, target: Field, extra: list[Field]
) -> Made:
    """A decoding step of a network of two parts: `extra` has the encoder's mask and results."""
    from torch import nn
    from transformers import DynamicCache, EncoderDecoderCache

    names = [one.name for one in extra]

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any, *arguments: Any) -> Any:
            given = dict(zip(names, arguments, strict=False))
            past = arguments[len(names) :]
            own = list(zip(past[0::4], past[1::4], strict=True))
            other = list(zip(past[2::4], past[3::4], strict=True))
            encoded = given.pop("encoder_hidden_states")
            result = self.model(
                decoder_input_ids=tokens,
                encoder_outputs=(encoded,),
                past_key_values=EncoderDecoderCache(DynamicCache(own), DynamicCache(other)),
                use_cache=True,
                **given,
            )
            cache = result.past_key_values.self_attention_cache
            return (result.logits, *(one for at in cache.layers for one in (at.keys, at.values)))

    past = [
        Field(
            f"past_key_values.{layer}.{part}.{one}",
            ("batch", heads, "past" if part == "decoder" else "sequence", width),
        )
        for layer in range(layers)
        for part in ("decoder", "encoder")
        for one in ("key", "value")
    ]
    present = [
        f"present.{layer}.decoder.{one}" for layer in range(layers) for one in ("key", "value")
    ]
    fields = [target, *extra, *past]
    sizes, others = SIZES | {"target": 1}, OTHERS | {"target": 2}
    return Made(Step(), fields, ["logits", *present], sizes, others, True)


assert BASE["hidden_size"] == 64  # the width of ENCODED
