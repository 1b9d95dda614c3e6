"""Packages that every export needs: the process that others are forked from imports them once."""

import torch

try:
    import torchvision
except RuntimeError:
    # The wheel of torchvision for GPUs has no operators beside a torch for CPUs, and imports once
    # these two exist. Where it has its own, a second definition would end the process.
    _LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401

import onnx  # noqa: F401
import onnxruntime  # noqa: F401
import timm  # noqa: F401
import transformers  # noqa: F401
