"""From a weight's name in a training framework to the path of the node that uses it.

MindSpore Lite's rule for `variable_weights_file` and `update_weights`: the names of LoRA files (diffusers, kohya, sgm)
end at the node of the network that they adapt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PREFIXES = re.compile(r"^(lora_unet_|lora_te[12]?_|text_encoder(_2)?\.|unet\.)")
_LORA = re.compile(r"(\.processor)?[._](lora(_linear_layer)?|lora_[AB]|lora_down|lora_up)(?=\.|$)|\.processor(?=\.)")
_UP_DOWN = re.compile(r"\.(up|down)(?=\.weight$|\.alpha$)")
_COMPOUND = ("down blocks", "up blocks", "mid block", "input blocks", "middle block", "output blocks",
             "transformer blocks", "to q", "to k", "to v", "to out", "proj in", "proj out", "self attn", "q proj",
             "k proj", "v proj", "out proj", "text model", "time emb proj", "conv in", "conv out", "conv shortcut")
_LAYERS = 3  # of a block in sgm's count, where diffusers counts two and the sampler


def node_path(name: str) -> str:
    """The path: `encoder.layers.0.fc1.weight` gives `/encoder/layers.0/fc1`."""
    bare, _, kind = name.rpartition(".")
    prefix = _PREFIXES.match(bare)
    bare = bare[prefix.end():] if prefix else bare
    bare = _UP_DOWN.sub("", f"{bare}.{kind}").removesuffix(f".{kind}")
    bare = _LORA.sub("", f"{bare}.").rstrip(".")
    if prefix and prefix[0].endswith("_"):
        bare = _dotted(bare)
    return "/" + "/".join(f"{part}.0" if part == "to_out" else part for part in _glued(_diffusers(bare).split(".")))


def scope_path(scope: str) -> str:
    """The path of a node in a MindIR file, from its scope: `Default/fc1-Dense/MatMul-op0` gives `/fc1`.

    A file that was converted from ONNX has such paths already, with the operator at their end: `/fc1/MatMul`.
    """
    parts = [part for part in scope.split("/")[:-1] if part and part != "Default"]
    return "/" + "/".join(_glued(re.sub(r"-[A-Z]\w*$", "", part) for part in parts))


def _glued(parts: Iterable[str]) -> list[str]:
    """The parts, numbers behind what they number: `layers`, `0` gives `layers.0`."""
    found: list[str] = []
    for part in parts:
        if part.isdecimal() and found:
            found[-1] += f".{part}"
        else:
            found.append(part)
    return found


def _dotted(name: str) -> str:
    """A name of kohya's, where every dot became an underscore, with its dots."""
    spaced = name.replace("_", " ")
    for compound in _COMPOUND:
        spaced = re.sub(rf"\b{compound}\b", compound.replace(" ", "_"), spaced)
    return spaced.replace(" ", ".")


def _diffusers(name: str) -> str:
    """A name with sgm's blocks as diffusers counts them."""
    name = re.sub(r"^middle_block\.1\b", "mid_block.attentions.0", name)
    name = re.sub(r"^middle_block\.([02])\b", lambda m: f"mid_block.resnets.{int(m[1]) // 2}", name)
    name = re.sub(r"^input_blocks\.(\d+)\.([01])\b", lambda m: _block("down", int(m[1]) - 1, m[2]), name)
    return re.sub(r"^output_blocks\.(\d+)\.([01])\b", lambda m: _block("up", int(m[1]), m[2]), name)


def _block(side: str, index: int, kind: str) -> str:
    layer = "attentions" if kind == "1" else "resnets"
    return f"{side}_blocks.{index // _LAYERS}.{layer}.{index % _LAYERS}"
