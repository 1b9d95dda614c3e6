"""Model builder: onnxruntime-genai's, which writes the decoder of a Hugging Face folder or a GGUF
file as ONNX.

It runs in this process, which is to be a child, and asks no network. It reads no pickles, and runs
no code that comes with a model.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...comm.errors import ModelError, RankmeshError, UsageError
from ...comm.host.regular_file import read_regular
from ...comm.host.stamp import Files, Stamp
from ...comm.serving.decoder_files import GGUF
from .gguf_file import GgufFile
from .gguf_folder import write_folder

_BUILDER = "onnxruntime_genai.models.builder"
_PACKAGES = {
    "onnxruntime_genai": "onnxruntime-genai",
    "torch": "torch",
    "transformers": "transformers",
}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_SUFFIXES = (".json", ".safetensors", ".model", ".txt", ".jinja")
_OTHER_PARTS = ("vision_config", "audio_config", "encoder")
_MOST_BYTES = 1 << 20
_REASON = 300
"""Characters of the builder's reason that an error repeats."""

_OPTIONS = {
    "fp32": [],
    "int4": ["accuracy_level=4", "block_size=32", "is_symmetric=false", "shared_embeddings=false"],
    "int8": ["accuracy_level=4", "block_size=32", "shared_embeddings=false"],
}
"""By precision. In blocks of 32 at accuracy level 4, products of matrices round the same way for
any number of rows. Embeddings stay as they are, as the builder's graphs with fewer bits for them
cannot be loaded.
"""


def decoder_files(model: str) -> Files:
    """The stamps of the files that make a decoder. Raises ModelError where there is none."""
    if not os.path.isdir(model):
        return {"": Stamp.of(model)}
    _check_folder(model)
    names = [name for name in os.listdir(model) if name.endswith(_SUFFIXES)]
    return {"": Stamp.of(model), **{one: Stamp.of(os.path.join(model, one)) for one in names}}


def build_decoder(model: str, precision: str, folder: Path) -> None:
    """Write the decoder of a model into a folder, in a precision, "" for the model's own.

    Raises UsageError where a package is missing, ModelError for other models than decoders of text.
    """
    _require_packages(model)
    os.environ.update(_OFFLINE)
    scratch = folder / "building"
    scratch.mkdir()
    source = model
    if model.endswith(GGUF):
        file = GgufFile(model)
        precision = precision or ("int4" if file.has_few_bits else "fp32")
        source = str(scratch / "source")
        os.mkdir(source)
        write_folder(file, source)
    _run(model, source, precision or "fp32", folder, scratch)
    shutil.rmtree(scratch)


def _require_packages(model: str) -> None:
    """Raise UsageError for what is missing."""
    needed = {**_PACKAGES, **({"gguf": "gguf"} if model.endswith(GGUF) else {})}
    missing = [package for name, package in needed.items() if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{model}: to generate from it, these packages are missing: {', '.join(missing)}. "
            "Install them with: pip install 'rankmesh[decoders]'."
        )


def _check_folder(folder: str) -> None:
    """Raise ModelError for a folder that has no decoder of text."""
    names = sorted(os.listdir(folder))
    if "config.json" not in names:
        adapter = "adapter_config.json" in names
        what = "a LoRA adapter, which is not supported" if adapter else "no config.json"
        raise ModelError(
            f"{folder}: has {what}: expected a Hugging Face folder of a whole decoder."
        )
    if not any(name.endswith(".safetensors") for name in names):
        raise ModelError(
            f"{folder}: has no .safetensors file with the weights. Save the model with "
            "save_pretrained; pickles are not read, as they can run code."
        )
    config = _config(os.path.join(folder, "config.json"))
    for part in _OTHER_PARTS:
        if config.get(part) is not None:
            raise ModelError(
                f"{folder}: config.json has a '{part}', expected a decoder of text alone. Models "
                "of images or sound are not supported."
            )


def _config(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is no JSON object, expected the settings of a model.")
    return found


def _run(model: str, source: str, precision: str, folder: Path, scratch: Path) -> None:
    """Run the builder. Raises ModelError with its reason where it fails."""
    options = ["hf_token=false", *_OPTIONS[precision]]
    place = ["-i", source, "-o", str(folder), "-c", str(scratch / "cache")]
    sys.argv = [_BUILDER, *place, "-p", precision, "-e", "cpu", "--extra_options", *options]
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            runpy.run_module(_BUILDER, run_name="__main__", alter_sys=True)
    except RankmeshError:
        raise
    except (Exception, SystemExit) as error:  # of any class: it is another's program
        reason = f"{type(error).__name__}: {error}"[:_REASON].replace(source, model)
        raise ModelError(
            f"{model}: onnxruntime-genai's model builder cannot write this decoder: {reason}"
        ) from error
