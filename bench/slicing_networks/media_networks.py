"""Networks of transformers that see and hear: images, audio, and images with text."""

from __future__ import annotations

from typing import Any

from encoder_networks import decoder_with_cache
from registry import Field, Made, Network, add
from text_networks import BASE, IDS, MASK, OTHERS, SIZES, WORDS, flat, make, text

SIDE = 32
IMAGE = Field("pixel_values", ("batch", 3, SIDE, SIDE))
WIDE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": SIDE,
    "patch_size": 8,
    "num_labels": 10,
}
STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1], "image_size": SIDE, "num_labels": 10}
SWIN = {
    "image_size": SIDE,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
    "num_labels": 10,
}
PYRAMID = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [2, 4],
    "mlp_ratios": [2, 2],
    "decoder_hidden_size": 32,
    "image_size": SIDE,
    "num_labels": 10,
}
CLASSIFIER = "AutoModelForImageClassification"
VISION: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": (CLASSIFIER, "vit", WIDE),
    "swin": (CLASSIFIER, "swin", SWIN),
    "hf_resnet": (
        CLASSIFIER,
        "resnet",
        STAGES | {"embedding_size": 16, "layer_type": "bottleneck", "hidden_sizes": [32, 64]},
    ),
    "dinov2": (CLASSIFIER, "dinov2", WIDE | {"mlp_ratio": 2}),
    "segformer": ("AutoModelForSemanticSegmentation", "segformer", PYRAMID),
    "beit": (CLASSIFIER, "beit", WIDE | {"use_relative_position_bias": True}),
    "deit": ("DeiTForImageClassification", "deit", WIDE),
    "convnext": (CLASSIFIER, "convnext", STAGES | {"num_stages": 2}),
    "convnextv2": (CLASSIFIER, "convnextv2", STAGES | {"num_stages": 2}),
    "swinv2": (CLASSIFIER, "swinv2", SWIN),
    "mobilevit": (
        CLASSIFIER,
        "mobilevit",
        {
            "image_size": 64,
            "hidden_sizes": [32, 48, 64],
            "neck_hidden_sizes": [8, 16, 16, 24, 24, 32, 64],
            "num_labels": 10,
        },
    ),
    "mobilevitv2": (CLASSIFIER, "mobilevitv2", {"image_size": 64, "width_multiplier": 0.25}),
    "vit_6_heads": (CLASSIFIER, "vit", WIDE | {"hidden_size": 96, "num_attention_heads": 6}),
    "dinov2_registers": (CLASSIFIER, "dinov2_with_registers", WIDE | {"mlp_ratio": 2}),
    "dinov2_swiglu": (CLASSIFIER, "dinov2", WIDE | {"use_swiglu_ffn": True}),
    "dinov3_vit": ("AutoModel", "dinov3_vit", WIDE),
    "dinov3_convnext": (
        "AutoModel",
        "dinov3_convnext",
        {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1], "image_size": SIDE},
    ),
    "regnet": (CLASSIFIER, "regnet", STAGES | {"embedding_size": 16, "groups_width": 8}),
    "poolformer": (
        CLASSIFIER,
        "poolformer",
        {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1], "num_labels": 10},
    ),
    "pvt": (
        CLASSIFIER,
        "pvt",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32, 32, 64],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 4, 4],
            "num_labels": 10,
        },
    ),
    "pvt_v2": (
        CLASSIFIER,
        "pvt_v2",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32, 32, 64],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 4, 4],
            "num_labels": 10,
        },
    ),
    "levit": (
        "LevitForImageClassification",
        "levit",
        {
            "image_size": 64,
            "hidden_sizes": [32, 48, 64],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "num_labels": 10,
        },
    ),
    "cvt": (
        CLASSIFIER,
        "cvt",
        {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3], "num_labels": 10},
    ),
    "efficientnet": (
        CLASSIFIER,
        "efficientnet",
        {
            "image_size": 64,
            "width_coefficient": 0.5,
            "depth_coefficient": 0.5,
            "hidden_dim": 640,
            "num_labels": 10,
        },
    ),
    "focalnet": (
        CLASSIFIER,
        "focalnet",
        {
            "image_size": SIDE,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [1, 1],
            "hidden_sizes": [16, 32],
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
            "num_labels": 10,
        },
    ),
    "bit": (CLASSIFIER, "bit", STAGES | {"embedding_size": 16, "num_groups": 4}),
    "mobilenet_v1": (CLASSIFIER, "mobilenet_v1", {"image_size": SIDE, "depth_multiplier": 0.25}),
    "hf_mobilenet_v2": (CLASSIFIER, "mobilenet_v2", {"image_size": SIDE, "depth_multiplier": 0.35}),
    "swiftformer": (
        CLASSIFIER,
        "swiftformer",
        {
            "image_size": 64,
            "embed_dims": [16, 32, 32, 64],
            "depths": [1, 1, 1, 1],
            "num_labels": 10,
        },
    ),
    "hiera": (
        CLASSIFIER,
        "hiera",
        {
            "image_size": [64, 64],
            "embed_dim": 16,
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 2, 4, 8],
            "num_labels": 10,
        },
    ),
    "ijepa": ("AutoModel", "ijepa", WIDE),
    "vit_msn": (CLASSIFIER, "vit_msn", WIDE),
    "data2vec_vision": (CLASSIFIER, "data2vec-vision", WIDE),
    "yolos": (
        "AutoModelForObjectDetection",
        "yolos",
        WIDE | {"image_size": [SIDE, SIDE], "num_detection_tokens": 8},
    ),
    "glpn": (
        "AutoModelForDepthEstimation",
        "glpn",
        {key: value for key, value in PYRAMID.items() if key != "decoder_hidden_size"}
        | {
            "num_encoder_blocks": 4,
            "depths": [1] * 4,
            "sr_ratios": [8, 4, 2, 1],
            "hidden_sizes": [16, 32, 32, 64],
            "patch_sizes": [7, 3, 3, 3],
            "strides": [4, 2, 2, 2],
            "num_attention_heads": [1, 2, 4, 4],
            "mlp_ratios": [2] * 4,
            "decoder_hidden_size": 16,
        },
    ),
    "dpt": (
        "AutoModelForDepthEstimation",
        "dpt",
        WIDE
        | {
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [16, 32, 32, 32],
            "fusion_hidden_size": 16,
            "is_hybrid": False,
        },
    ),
    "swin2sr": (
        "AutoModelForImageToImage",
        "swin2sr",
        {
            "image_size": SIDE,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
    ),
    "vitdet": ("AutoModel", "vitdet", WIDE | {"window_block_indices": [0], "window_size": 2}),
    "textnet": (CLASSIFIER, "textnet", {"num_labels": 10}),
    "hgnet_v2": (CLASSIFIER, "hgnet_v2", {"num_labels": 10}),
    "siglip_vision": ("AutoModel", "siglip_vision_model", WIDE),
    "clip_vision": ("AutoModel", "clip_vision_model", WIDE),
    # Hides patches at random: what has to be refused.
    "vit_mae": ("AutoModel", "vit_mae", WIDE | {"mask_ratio": 0.0}),
    "convnext_6_stages": (
        CLASSIFIER,
        "convnext",
        {"num_stages": 3, "hidden_sizes": [12, 24, 48], "depths": [2, 1, 1]},
    ),
}
SIDES = {
    "mobilevit": 64, "mobilevitv2": 64, "pvt": 64, "pvt_v2": 64, "levit": 64, "efficientnet": 64,
    "swiftformer": 64, "hiera": 64, "poolformer": 64, "cvt": 64, "glpn": 64, "textnet": 64,
    "hgnet_v2": 64, "dinov3_convnext": 64,
}  # fmt: skip
NEWER = {"mobilevitv2", "dinov2_registers", "dinov3_vit"}
"""What torch's older exporter refuses, or writes wrongly."""
CONVOLUTIONS = {
    "conv_dim": [16, 16, 32],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
SPEECH = {key: value for key, value in BASE.items() if key != "max_position_embeddings"}
SPEECH |= CONVOLUTIONS
WAVE = Field("input_values", ("batch", "samples"))
AUDIO: dict[str, tuple[str, str, dict[str, Any]]] = {
    "wav2vec2": ("AutoModelForCTC", "wav2vec2", SPEECH),
    "wav2vec2_stable": (
        "AutoModelForCTC",
        "wav2vec2",
        SPEECH | {"do_stable_layer_norm": True, "feat_extract_norm": "layer"},
    ),
    "hubert": ("AutoModelForCTC", "hubert", SPEECH),
    "wavlm": ("AutoModelForCTC", "wavlm", SPEECH | {"num_buckets": 16, "max_bucket_distance": 20}),
    "unispeech": ("AutoModelForCTC", "unispeech", SPEECH),
    "unispeech_sat": ("AutoModelForCTC", "unispeech-sat", SPEECH),
    "data2vec_audio": ("AutoModelForCTC", "data2vec-audio", SPEECH),
    "sew": ("AutoModelForCTC", "sew", SPEECH | {"squeeze_factor": 2}),
    "sew_d": ("AutoModelForCTC", "sew-d", SPEECH | {"squeeze_factor": 2}),
    "wav2vec2_conformer": ("AutoModelForCTC", "wav2vec2-conformer", SPEECH),
}
WHISPER = {
    "vocab_size": WORDS,
    "num_mel_bins": 16,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
MEL = Field("input_features", ("batch", 16, 40))
SPOKEN = Field("decoder_input_ids", ("batch", "target"), "int64", "ids", WORDS)
SPOKEN_MASK = Field("decoder_attention_mask", ("batch", "target"), "int64", "mask")
TEXT_PART = {
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
VISION_PART = {key: value for key, value in WIDE.items() if key != "num_labels"}
BOTH = {"text_config": TEXT_PART, "vision_config": VISION_PART, "projection_dim": 32}
PAIRS = ["logits_per_image", "logits_per_text"]
PIXELS = Field("pixel_values", ("images", 3, SIDE, SIDE))


def register() -> None:
    """Registers all networks of this file."""
    for name, (auto, model_type, params) in VISION.items():
        side = SIDES.get(name, SIDE)
        image = Field("pixel_values", ("batch", 3, side, side))
        how: dict[str, Any] = {"dynamo": True, "opset": 18} if name in NEWER else {}
        _media(name, "vision", auto, model_type, params, (image,), **how)
        if name in ("vit", "swin", "hf_resnet", "beit"):
            _media(f"{name}_dynamic", "vision", auto, model_type, params, (image,), opens=True)
    _media("vit_dynamo", "vision", *VISION["vit"], (IMAGE,), dynamo=True, opset=18, opens=True)
    for name, (auto, model_type, params) in AUDIO.items():
        _media(name, "audio", auto, model_type, params, (WAVE,))
    _media("wav2vec2_dynamic", "audio", *AUDIO["wav2vec2"], (WAVE,), opens=True)
    _whisper()
    _other_audio()
    _images_with_text()


def _media(
    name: str,
    kind: str,
    auto: str,
    model_type: str,
    params: dict[str, Any],
    fields: tuple[Field, ...],
    **how: Any,
) -> None:
    sizes = {"batch": 2, "samples": 800, "frames": 24, "images": 2}
    text(name, model_type, params, auto=auto, kind=kind, fields=fields, base={}, sizes=sizes, **how)


def _whisper() -> None:
    auto, fields = "AutoModelForSpeechSeq2Seq", (MEL, SPOKEN, SPOKEN_MASK)
    for suffix, how in (("", {}), ("_dynamic", {"opens": True})):
        name = f"whisper{suffix}"
        _media(name, "audio", auto, "whisper", WHISPER, fields, use_cache=False, **how)

    def encoder() -> Made:
        model = make(auto, "whisper", WHISPER).get_encoder()
        return Made(flat(model, ["input_features"]), [MEL], ["encoded"], SIZES, OTHERS, True)

    def step() -> Made:
        return decoder_with_cache(
            make(auto, "whisper", WHISPER),
            layers=2,
            heads=4,
            width=16,
            target=SPOKEN,
            extra=[Field("encoder_hidden_states", ("batch", "sequence", 64))],
        )

    for name, build in (("whisper_encoder", encoder), ("whisper_decoder_cache", step)):
        add(Network(name, "audio", "transformers whisper", build, params=WHISPER))


def _other_audio() -> None:
    spectrogram = Field("input_values", ("batch", 40, 16))
    params = WIDE | {"num_mel_bins": 16, "max_length": 40, "patch_size": 8}
    params = {key: value for key, value in params.items() if key != "image_size"}
    _media(
        "spectrogram_transformer", "audio", "AutoModelForAudioClassification",
        "audio-spectrogram-transformer", params, (spectrogram,),
    )  # fmt: skip
    features = Field("input_features", ("batch", "frames", 160))
    bert = {key: value for key, value in SPEECH.items() if key not in CONVOLUTIONS}
    _media(
        "wav2vec2_bert", "audio", "AutoModelForCTC", "wav2vec2-bert",
        bert | {"feature_projection_input_dim": 160}, (features,),
    )  # fmt: skip
    speech = {key: value for key, value in WHISPER.items() if key != "num_mel_bins"}
    filters = Field("input_features", ("batch", "frames", 16))
    _media(
        "speech_to_text", "audio", "AutoModelForSpeechSeq2Seq", "speech_to_text",
        speech | {"input_feat_per_channel": 16, "input_channels": 1, "conv_channels": 32,
                  "max_source_positions": 60},
        (filters, SPOKEN), use_cache=False,
    )  # fmt: skip
    moonshine = {
        "vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 128,
        "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
        "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    long = Field("input_values", ("batch", 4000))
    _media(
        "moonshine", "audio", "AutoModelForSpeechSeq2Seq", "moonshine", moonshine,
        (long, SPOKEN, SPOKEN_MASK), use_cache=False, dynamo=True, opset=18,
    )  # fmt: skip


def _images_with_text() -> None:
    for model_type in ("clip", "siglip", "altclip", "chinese_clip"):
        fields = (IDS, PIXELS, MASK)
        _media(model_type, "image-text", "AutoModel", model_type, BOTH, fields, results=PAIRS)
    _media(
        "clip_dynamic", "image-text", "AutoModel", "clip", BOTH, (IDS, PIXELS, MASK),
        results=PAIRS, opens=True,
    )  # fmt: skip
    prompted = BOTH | {"projection_dim": 64}
    _media(
        "owlvit", "image-text", "AutoModelForZeroShotObjectDetection", "owlvit", prompted,
        (IDS, Field("pixel_values", ("batch", 3, SIDE, SIDE)), MASK),
    )  # fmt: skip
    _media(
        "visual_bert", "image-text", "AutoModel", "visual_bert",
        BASE | {"visual_embedding_dim": 32},
        (IDS, MASK, Field("visual_embeds", ("batch", 4, 32))),
    )  # fmt: skip
    _media("clip_text", "image-text", "AutoModel", "clip_text_model", TEXT_PART, (IDS, MASK))
    _media(
        "siglip_text", "image-text", "SiglipTextModel", "siglip_text_model", TEXT_PART, (IDS, MASK)
    )
