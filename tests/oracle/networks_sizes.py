"""Which images the networks of networks.py take, and which of them MindSpore runs in the first
pass.
"""

from __future__ import annotations

import os
import re

# Networks that MindSpore runs as well, and the height and width of their input: one or two of each
# family, kept small because MindSpore's convolution on a CPU is a reference kernel.
RUN = {
    "squeezenet1_1": 64,
    "resnet18": 64,
    "resnet50": 64,
    "mobilenet_v1_025": 64,
    "mobilenet_v2_035_96": 64,
    "mobilenet_v3_small_075": 64,
    "mobilenet_v3_large_075": 64,
    "shufflenet_v1_g3_05": 64,
    "shufflenet_v2_x0_5": 64,
    "ghostnet_050": 64,
    "mnasnet_050": 64,
    "regnet_x_200mf": 64,
    "regnet_y_200mf": 64,
    "rexnet_09": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "mixnet_s": 64,
    "resnext50_32x4d": 64,
    "seresnet18": 64,
    "skresnet18": 64,
    "resnest14": 64,
    "res2net50": 64,
    "res2net50_v1b": 64,
    "resnetv2_50": 64,
    "BiT_resnet50": 64,
    "repvgg_a0": 64,
    "densenet121": 64,
    "dpn92": 64,
    "googlenet": 64,
    "vgg11": 224,
    "inception_v3": 107,
    "inception_v4": 107,
    "xception": 64,
    "seresnext26_32x4d": 64,
    "hrnet_w32": 64,
    "nasnet_a_4x1056": 64,
    "pnasnet": 64,
    "convnext_tiny": 64,
    "convnextv2_atto": 64,
    "edgenext_xx_small": 256,
    "mobilevit_xx_small": 256,
    "poolformer_s12": 64,
    "visformer_tiny": 224,
    "visformer_tiny_v2": 224,
    "pit_ti": 224,
    "pvt_tiny": 224,
    "pvt_v2_b0": 64,
    "cmt_tiny": 160,
    "coat_lite_tiny": 224,
    "coat_tiny": 224,
    "convit_tiny": 224,
    "crossvit_9": 240,
    "swin_tiny": 224,
    "swinv2_tiny_window8": 256,
    "vit_b_32_224": 224,
    "cait_xxs24_224": 224,
    "xcit_tiny_12_p16_224": 224,
    "mlp_mixer_s_p32": 224,
    "repmlp_t224": 224,
    "mae_b_16_224_finetune": 224,
    "mae_b_16_224_pretrain": 224,
}
# With random weights these grow from layer to layer until one rounding of the input changes a
# hundredth of the result: their weights are made smaller.
CALM = {"visformer_small_v2": 0.5}
SIZES = (224, 256, 384, 240, 299, 331, 448, 512, 160, 192)
LAST = re.compile(
    "huge|xlarge|_xl$|_h_|_l_|_l$|m48|m36|large|b[67]$|152|200|269|264|101|161|d[345]$|32gf|16gf|50x3"
)


def sizes(name: str) -> list[int]:
    """Heights to try, those that the name gives first."""
    named = [
        int(n) for n in re.findall(r"(?<!\d)\d{2,3}(?!\d)", name) if int(n) in (*SIZES, 96, 128)
    ]
    return [*named, *SIZES]


def run_sizes(name: str) -> list[int]:
    """Heights to try where MindSpore runs a network, small ones first: what its nearest relative in
    RUN takes.
    """
    nearest = max(RUN, key=lambda other: len(os.path.commonprefix([name, other])))
    small = [32, 64] if RUN[nearest] == 64 else [RUN[nearest]]
    return [RUN[name]] if name in RUN else [*small, *sizes(name)]
