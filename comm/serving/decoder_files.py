"""Files of a decoder: tell a folder with a language model from other models."""

from __future__ import annotations

import os

CONFIG = "genai_config.json"
"""The file by which a folder of onnxruntime-genai is known."""

GGUF = ".gguf"
"""The end of the names of GGUF files."""


def decoder_config(path: str) -> str | None:
    """The configuration of the decoder in a folder, or the file itself; None for other models."""
    if os.path.basename(path) == CONFIG:
        return path
    inside = os.path.join(path, CONFIG)
    return inside if os.path.isfile(inside) else None
