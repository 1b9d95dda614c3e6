"""Image networks of torchvision and timm, with images that are as small as each one takes."""

from __future__ import annotations

from typing import Any

from registry import Field, Made, Network, add

SIZES = {"batch": 2}
OTHERS = {"batch": 3}
TORCHVISION: dict[str, tuple[str, int, dict[str, Any]]] = {
    "tv_resnet18": ("resnet18", 64, {}),
    "tv_resnet50": ("resnet50", 64, {"width_per_group": 16}),
    "tv_mobilenet_v2": ("mobilenet_v2", 64, {"width_mult": 0.5}),
    "tv_vit": (
        "VisionTransformer",
        32,
        {
            "image_size": 32,
            "patch_size": 8,
            "num_layers": 2,
            "num_heads": 12,
            "hidden_dim": 96,
            "mlp_dim": 192,
        },
    ),
    "tv_alexnet": ("alexnet", 224, {}),
    "tv_vgg11": ("vgg11", 224, {}),
    "tv_squeezenet": ("squeezenet1_1", 64, {}),
    "tv_densenet121": ("densenet121", 64, {}),
    "tv_googlenet": ("googlenet", 64, {"aux_logits": False, "init_weights": False}),
    "tv_inception": ("inception_v3", 96, {"aux_logits": False, "init_weights": False}),
    "tv_mobilenet_v3_small": ("mobilenet_v3_small", 64, {}),
    "tv_mobilenet_v3_large": ("mobilenet_v3_large", 64, {}),
    "tv_efficientnet_b0": ("efficientnet_b0", 64, {}),
    "tv_efficientnet_v2": ("efficientnet_v2_s", 64, {}),
    "tv_shufflenet": ("shufflenet_v2_x0_5", 64, {}),
    "tv_mnasnet": ("mnasnet0_5", 64, {}),
    "tv_regnet_x": ("regnet_x_400mf", 64, {}),
    "tv_regnet_y": ("regnet_y_400mf", 64, {}),
    "tv_resnext50": ("resnext50_32x4d", 64, {}),
    "tv_convnext_tiny": ("convnext_tiny", 64, {}),
    "tv_swin_t": ("swin_t", 64, {}),
    "tv_swin_v2_t": ("swin_v2_t", 64, {}),
    "tv_maxvit": (
        "MaxVit",
        64,
        {
            "input_size": (64, 64),
            "stem_channels": 16,
            "partition_size": 2,
            "block_channels": [16, 32],
            "block_layers": [1, 1],
            "head_dim": 8,
            "stochastic_depth_prob": 0.0,
        },
    ),
    "tv_fcn_resnet50": ("segmentation.fcn_resnet50", 64, {}),
    "tv_deeplab": ("segmentation.deeplabv3_mobilenet_v3_large", 64, {}),
    "tv_lraspp": ("segmentation.lraspp_mobilenet_v3_large", 64, {}),
}
SMALL = {"depth": 2, "embed_dim": 96, "img_size": 64}
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "mixer_s16_224": (64, {"img_size": 64}),
    "resmlp_12_224": (64, {"img_size": 64}),
    "gmlp_s16_224": (64, {"img_size": 64}),
    "vit_tiny_patch16_224": (64, {"img_size": 64, "depth": 3}),
    "vit_small_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "vit_relpos_small_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "vit_small_patch14_dinov2": (56, {"img_size": 56, "depth": 2}),
    "vit_so150m2_patch16_reg1_gap_256": (
        64,
        {"img_size": 64, "depth": 2, "embed_dim": 96, "num_heads": 6},
    ),
    "eva02_tiny_patch14_224": (56, {"img_size": 56, "depth": 2}),
    "deit3_small_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "beitv2_base_patch16_224": (
        64,
        {"img_size": 64, "depth": 2, "embed_dim": 96, "num_heads": 6},
    ),
    "cait_xxs24_224": (64, {"img_size": 64, "depth": 2}),
    "xcit_nano_12_p16_224": (64, {"img_size": 64, "depth": 2}),
    "convmixer_768_32": (64, {}),
    "pit_ti_224": (64, {"img_size": 64}),
    "poolformer_s12": (64, {}),
    "levit_128s": (64, {"img_size": 64}),
    "coat_lite_tiny": (64, {"img_size": 64}),
    "crossvit_tiny_240": (240, {}),
    "tnt_s_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "twins_pcpvt_small": (64, {"img_size": 64, "depths": (1, 1, 1, 1)}),
    "twins_svt_small": (64, {"img_size": 64, "depths": (1, 1, 2, 1)}),
    "visformer_tiny": (64, {"img_size": 64}),
    "convit_tiny": (64, {"img_size": 64, "depth": 4, "local_up_to_layer": 2}),
    "volo_d1_224": (64, {"img_size": 64}),
    "nest_tiny": (64, {"img_size": 64}),
    "edgenext_xx_small": (64, {"depths": (1, 1, 2, 1)}),
    "mobileone_s0": (64, {}),
    "repvgg_a0": (64, {}),
    "ghostnet_050": (64, {}),
    "hrnet_w18_small": (64, {}),
    "dla34": (64, {}),
    "dpn48b": (64, {}),
    "res2net50_14w_8s": (64, {}),
    "resnest14d": (64, {}),
    "skresnet18": (64, {}),
    "seresnet18": (64, {}),
    "ecaresnet26t": (64, {}),
    "nfnet_l0": (64, {}),
    "cspresnet50": (64, {}),
    "xception41": (96, {}),
    "rexnet_100": (64, {}),
    "tf_efficientnet_lite0": (64, {}),
    "inception_resnet_v2": (96, {}),
    "davit_tiny": (64, {"depths": (1, 1, 1, 1)}),
    "maxvit_rmlp_pico_rw_256": (256, {"img_size": 256}),
    "coatnet_pico_rw_224": (224, {}),
    "focalnet_tiny_srf": (64, {}),
    "sequencer2d_s": (64, {"img_size": 64, "layers": (1, 1, 1, 1)}),
    "swinv2_cr_tiny_224": (64, {"img_size": 64, "depths": (1, 1, 2, 1)}),
    "mobilevit_xxs": (64, {}),
    "fastvit_t8": (64, {}),
    "efficientformer_l1": (224, {}),
    "efficientvit_b0": (64, {}),
    "tiny_vit_5m_224": (224, {}),
    "hiera_tiny_224": (64, {"img_size": 64, "stages": (1, 1, 1, 1)}),
    "caformer_s18": (64, {}),
    "inception_next_atto": (64, {}),
    "starnet_s1": (64, {}),
    "mambaout_femto": (64, {}),
    "botnet26t_256": (256, {}),
    "lambda_resnet26t": (256, {}),
    "halonet26t": (256, {}),
    "ese_vovnet19b_dw": (64, {}),
    "selecsls42b": (64, {}),
    "tresnet_m": (64, {}),
    "hardcorenas_a": (64, {}),
    "gernet_s": (64, {}),
    "pvt_v2_b0": (64, {}),
    "gcvit_xxtiny": (224, {}),
    "mnasnet_100": (64, {}),
    "rdnet_tiny": (64, {}),
    "hgnetv2_b0": (64, {}),
    "repvit_m0_9": (64, {}),
    "shvit_s1": (64, {}),
}  # fmt: skip
MODERN = ("tv_resnet50", "tv_convnext_tiny", "tv_vit")
"""Those that torch's newer exporter writes as well."""
NEWER = {"volo_d1_224", "halonet26t", "botnet26t_256", "tresnet_m"}
"""What torch's older exporter refuses, or writes wrongly."""
OPEN = ("tv_resnet18", "tv_mobilenet_v2", "tv_vit", "tv_swin_t")


def register() -> None:
    """Registers all networks of this file."""
    for name, (model, side, params) in TORCHVISION.items():
        _torchvision(name, model, side, params)
        if name in OPEN:
            _torchvision(f"{name}_dynamic", model, side, params, opens=True)
        if name in MODERN:
            _torchvision(f"{name}_dynamo", model, side, params, dynamo=True, opset=18)
    _torchvision("tv_resnet18_opset13", "resnet18", 64, {}, opset=13)
    for name, (side, params) in TIMM.items():
        _timm(name, side, params)


def _torchvision(
    name: str,
    model: str,
    side: int,
    params: dict[str, Any],
    opens: bool = False,
    **how: Any,
) -> None:
    image = Field("image", ("batch", 3, side, side))

    def build() -> Made:
        import torchvision

        place: Any = torchvision.models
        for part in model.split("."):
            place = getattr(place, part)
        found = place(**params) if "." not in model else place(weights_backbone=None, **params)
        if "." in model:
            found = _first(found)
        return Made(found, [image], ["output"], SIZES, OTHERS, opens)

    kind = "segmentation" if "." in model else "image"
    add(Network(name, kind, f"torchvision {model}", build, params=params, **how))


def _first(model: Any) -> Any:
    """The module with the result of segmentation only, which its dictionary holds as "out"."""
    from torch import nn

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, image: Any) -> Any:
            return self.model(image)["out"]

    return First()


def _timm(name: str, side: int, params: dict[str, Any]) -> None:
    image = Field("image", ("batch", 3, side, side))

    def build() -> Made:
        import timm

        timm.layers.set_exportable(True)
        model = timm.create_model(name, pretrained=False, num_classes=10, **params)
        return Made(model, [image], ["output"], SIZES, OTHERS)

    how: dict[str, Any] = {"dynamo": True, "opset": 18} if name in NEWER else {}
    add(Network(f"timm_{name}", "image", f"timm {name}", build, params=params, **how))
