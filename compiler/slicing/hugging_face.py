"""Hugging Face folders: checks what a folder holds before transformers and torch are loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...comm.errors import ModelError, UsageError
from ...comm.host.stamp import Files, Stamp
from ...comm.job.other_files import other_file

if TYPE_CHECKING:
    import onnx_ir as ir

_WEIGHTS = ".safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


def read_folder(folder: str) -> ir.Model:
    """The ONNX model of a folder with config.json and safetensors files.

    ModelError where the folder lacks them, UsageError where a package is missing.
    """
    _check(folder)
    try:
        from ..torch_models.hugging_face import hugging_face_model
    except ImportError as error:
        raise UsageError(
            f"{folder}: a Hugging Face folder needs a package that cannot be imported ({error}). "
            "Install it with: pip install 'rankmesh[slice,hf]'."
        ) from error
    return hugging_face_model(folder)


def folder_files(folder: str) -> Files:
    """The stamps of the files that make the model of a folder; ModelError as read_folder has it."""
    _check(folder)
    names = [name for name in os.listdir(folder) if name.endswith((".json", _WEIGHTS))]
    return {name: Stamp.of(os.path.join(folder, name)) for name in names}


def _check(folder: str) -> None:
    names = sorted(os.listdir(folder))
    if "config.json" not in names:
        raise ModelError(
            other_file(folder)
            or f"{folder}: is a folder without config.json, expected a model file, or a folder of "
            "a Hugging Face model with config.json and safetensors files."
        )
    if any(name.endswith(_WEIGHTS) for name in names):
        return
    pickles = [name for name in names if name.endswith(_PICKLES)]
    if pickles:
        raise ModelError(
            f"{folder}: its weights are in {pickles[0]}, which is a pickle. Rankmesh reads none, "
            "as they can run code. Save the model with save_pretrained, which writes safetensors."
        )
    raise ModelError(f"{folder}: has no .safetensors file with the weights. Copy it there.")
