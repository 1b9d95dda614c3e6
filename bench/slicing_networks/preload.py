"""Packages that every export needs: the process that others are forked from imports them once."""

import torch

# The wheel of torchvision for GPUs imports beside a torch for CPUs once these operators exist.
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    try:
        _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:  # torchvision's own library has defined them
        pass

import onnx  # noqa: E402, F401
import onnxruntime  # noqa: E402, F401
import timm  # noqa: E402, F401
import torchvision  # noqa: E402, F401
import transformers  # noqa: E402, F401
