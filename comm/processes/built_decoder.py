"""Built decoders: ask a child process for the decoder of a Hugging Face folder or a GGUF file.

The child keeps decoders that it has built: the next job with the same request finds them.
"""

from __future__ import annotations

import os

import msgspec

from .. import errors
from ..decoding import guarded
from ..serving.decoder_files import CONFIG
from .child_answer import run_child
from .sliced_model import hold

_MODULE = "rankmesh.worker.cache.kept_decoders"


class BuildRequest(msgspec.Struct, frozen=True):
    """A model, and the `precision` of its weights, "" for the model's own.

    `cache` is the model cache that keeps the decoder, "" for the usual one. With `sweep`, the child
    only removes what a killed one has left.
    """

    model: str
    precision: str = ""
    cache: str = ""
    sweep: bool = False


class BuildAnswer(msgspec.Struct, frozen=True):
    """The folder of the decoder, to be held while it is used; or an error, by class and text."""

    folder: str = ""
    error: str = ""
    text: str = ""


BUILD_DECODER = guarded(msgspec.json.Decoder(BuildRequest))
_read_answer = guarded(msgspec.json.Decoder(BuildAnswer))


class BuiltDecoder:
    """A decoder that was built; it is not evicted from the model cache until `close`."""

    def __init__(self, answer: BuildAnswer) -> None:
        self._lock = hold(answer.folder)
        self.config = os.path.join(answer.folder, CONFIG)

    def close(self) -> None:
        """Let the model cache evict the decoder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def build_in_child(request: BuildRequest) -> BuiltDecoder:
    """The decoder of a model, built by a child process or found; raises its RankmeshError."""
    request = msgspec.structs.replace(request, model=os.path.abspath(request.model))
    answer = _asked(request)
    try:
        return BuiltDecoder(answer)
    except FileNotFoundError:  # evicted by another process just now
        return BuiltDecoder(_asked(request))


def _asked(request: BuildRequest) -> BuildAnswer:
    child = run_child(_MODULE, request)
    try:
        answer = _read_answer(child.data)
    except msgspec.DecodeError as error:
        run_child(_MODULE, msgspec.structs.replace(request, sweep=True))
        raise errors.ModelError(
            f"{request.model}: the process that builds its decoder {child}, before it had an "
            "answer. Nothing of it is left."
        ) from error
    if answer.error:
        raise errors.error_named(answer.error, answer.text)
    return answer
