"""Kept decoders: builds the decoder of a Hugging Face folder or a GGUF file, or finds an earlier
one.

`comm/processes/built_decoder.py` starts it with a request as its argument.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from ...comm.digest import blake2b
from ...comm.errors import RankmeshError, UsageError
from ...comm.processes.built_decoder import BUILD_DECODER, BuildAnswer, BuildRequest
from ...comm.processes.child_answer import follow_parent, tell
from ...compiler.decoders.model_builder import build_decoder, decoder_files
from .build_source import BuildSource
from .identity import package_version, source_digest
from .settings import served_cache
from .store import IDENTITIES, CacheStore

_PACKAGES = ("rankmesh", "onnxruntime-genai", "transformers", "torch", "gguf", "onnx-ir")
_KIND = "decoder-"
"""Begins the names of the files that remember hashes of models, whose other files count here."""

_ELSEWHERE = (
    "Name a folder for it: RANKMESH_CACHE=FOLDER, or cache: FOLDER in the model's settings."
)


def kept_decoder(request: BuildRequest) -> BuildAnswer:
    """The decoder that a request asks for; raises RankmeshError."""
    store = _store(request)
    if request.sweep:
        store.sweep()
        return BuildAnswer()
    source = BuildSource(request.model, decoder_files, store.folder / IDENTITIES, _KIND)
    key = _key(request, source.digest)

    def fill(target: Path) -> None:
        build_decoder(request.model, request.precision, target)
        source.check()

    while (found := store.find(key)) is None:
        try:
            if not store.add(key, request.model, fill):
                store.wait(key)
        except OSError as error:
            raise UsageError(
                f"{request.model}: its decoder cannot be kept: {error}. {_ELSEWHERE}"
            ) from error
    return BuildAnswer(str(found))


def _key(request: BuildRequest, digest: str) -> str:
    """The name of the decoder, of the model's hash, the precision, and versions."""
    versions = [package_version(name) for name in _PACKAGES]
    parts = [digest, request.precision, versions, source_digest()]
    return blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()


def _store(request: BuildRequest) -> CacheStore:
    location = served_cache(request.cache)
    store = location.open() if location is not None else None
    if store is None:
        raise UsageError(
            f"{request.model}: its decoder is built, and kept in the model cache, which is off. "
            f"{_ELSEWHERE}"
        )
    return store


def main() -> None:
    """Answer the request in the first argument."""
    follow_parent()
    answers = os.dup(1)  # the builder's libraries print to the standard output
    os.dup2(2, 1)
    try:
        answer = kept_decoder(BUILD_DECODER(sys.argv[1].encode()))
    except RankmeshError as error:
        answer = BuildAnswer(error=type(error).__name__, text=str(error))
    sys.stdout.flush()
    os.dup2(answers, 1)
    tell(answer)


if __name__ == "__main__":
    main()
