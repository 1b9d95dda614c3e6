"""Configuration of a decoder: `genai_config.json`, as onnxruntime-genai's model builder writes it.

Source of the format: https://onnxruntime.ai/docs/genai/reference/config.html
"""

from __future__ import annotations

import os

import msgspec

from ...comm.decoding import guarded
from ...comm.errors import ModelError
from ...comm.host.regular_file import read_regular
from ...comm.serving.decoder_files import CONFIG

_MOST_BYTES = 1 << 20
_OTHER_PARTS = ("vision", "speech", "embedding", "encoder")
"""Parts of models that take more than text, or that have more than a decoder."""


class DecoderInputs(msgspec.Struct, frozen=True):
    """Names of a decoder's inputs; `%d` stands for the number of a layer."""

    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"


class DecoderOutputs(msgspec.Struct, frozen=True):
    """Names of a decoder's outputs, likewise."""

    logits: str = "logits"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"


class SlidingWindow(msgspec.Struct, frozen=True):
    """How many tokens the attention of some layers sees; without `layers`, of all."""

    window_size: int
    layers: list[int] = []


class DecoderPart(msgspec.Struct, frozen=True):
    """The decoder itself: its file, its sizes and its names."""

    filename: str
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_size: int
    inputs: DecoderInputs = DecoderInputs()
    outputs: DecoderOutputs = DecoderOutputs()
    sliding_window: SlidingWindow | None = None

    def window(self, layer: int) -> int:
        """How many tokens the attention of a layer sees; -1 for all."""
        found = self.sliding_window
        inside = found is not None and (not found.layers or layer in found.layers)
        return found.window_size if found is not None and inside else -1


class ModelPart(msgspec.Struct, frozen=True):
    """The model: its decoder, the ids of tokens with a meaning, and the longest sequence."""

    decoder: DecoderPart
    context_length: int
    vocab_size: int
    type: str = ""
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    vision: object = None
    speech: object = None
    embedding: object = None
    encoder: object = None


class GenaiConfig(msgspec.Struct, frozen=True):
    """The whole file; what it says of the search is for programs that do not say it themselves."""

    model: ModelPart

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """The ids of the tokens that end a text."""
        found = self.model.eos_token_id
        return tuple(found) if isinstance(found, list) else () if found is None else (found,)


_decode = guarded(msgspec.json.Decoder(GenaiConfig))


def read_genai_config(path: str) -> GenaiConfig:
    """The configuration in a file; ModelError where it is none of a decoder that takes text."""
    try:
        config = _decode(read_regular(path, _MOST_BYTES))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise ModelError(
            f"{path}: not a {CONFIG} of a decoder: {error}. Write it anew with onnxruntime-genai's "
            "model builder."
        ) from error
    _check(path, config.model)
    return config


def _check(path: str, model: ModelPart) -> None:
    """Raise ModelError for more than a decoder of text, and for sizes that cannot be."""
    decoder = model.decoder
    for part in _OTHER_PARTS:
        if getattr(model, part) is not None:
            raise ModelError(
                f"{path}: the model has a part '{part}', expected a decoder of text alone. Models "
                "of images or sound are not supported."
            )
    if os.path.basename(decoder.filename) != decoder.filename or not decoder.filename:
        raise ModelError(
            f"{path}: model.decoder.filename is '{decoder.filename}', expected the name of a file "
            "beside it."
        )
    sizes = {
        "model.context_length": model.context_length,
        "model.vocab_size": model.vocab_size,
        "model.decoder.num_hidden_layers": decoder.num_hidden_layers,
        "model.decoder.num_attention_heads": decoder.num_attention_heads,
        "model.decoder.num_key_value_heads": decoder.num_key_value_heads,
        "model.decoder.head_size": decoder.head_size,
    }
    for name, size in sizes.items():
        if size < 1:
            raise ModelError(f"{path}: {name} is {size}, expected 1 or more.")
