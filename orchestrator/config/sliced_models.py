"""Sliced models of an orchestrator: replaces the settings of whole models by those of shards."""

from __future__ import annotations

import os
from dataclasses import replace

from ...comm.errors import UsageError
from ...comm.processes.built_decoder import BuildRequest, BuiltDecoder, build_in_child
from ...comm.processes.sliced_model import (
    AUTO,
    Mesh,
    SlicedModel,
    SliceRequest,
    parse_mesh,
    slice_in_child,
)
from ...comm.serving.decoder_files import GGUF, decoder_config
from .settings import ModelSettings


class SlicedModels:
    """The shards that child processes have made; the model cache keeps them until `close`."""

    def __init__(self) -> None:
        self._held: list[SlicedModel | BuiltDecoder] = []
        self.decoder: str | None = None
        """The configuration of a model that generates text."""

    def shards_of(self, model: ModelSettings) -> ModelSettings:
        """The settings of a model's shards, after slicing it where that is asked for.

        Raises UsageError, and ModelError where the model cannot be sliced.
        """
        self.decoder = self._decoder_of(model)
        if self.decoder is not None:
            model = _decoder(model, self.decoder)
        if model.slice is None:
            if model.slice_dir is not None:
                raise UsageError(f"model '{model.label}': slice_dir is for shards of slice.")
            return model
        mesh = _asked(model)
        cache, folder = model.cache_folder, model.slice_dir or ""
        automatic = model.slice == AUTO and model.replicas is None
        sliced = slice_in_child(
            SliceRequest(model.path, mesh.ranks, mesh.stages, folder, cache, automatic)
        )
        self._held.append(sliced)
        return replace(
            model,
            path=sliced.pattern,
            name=model.label,
            ranks=sliced.ranks,
            replicas=sliced.replicas or _replicas(model, mesh),
        )

    def close(self) -> None:
        """Let the model cache evict the shards."""
        for one in self._held:
            one.close()

    def _decoder_of(self, model: ModelSettings) -> str | None:
        """The configuration of a model's decoder, which is built where it is in another form; None
        for models that generate no text.
        """
        config, precision = decoder_config(model.path), None
        if model.generation is not None:
            precision = model.generation.precision
        if config is not None and precision is not None:
            raise UsageError(
                f"model '{model.label}': precision is for Hugging Face folders and GGUF files, and "
                f"{model.path} has been built already: leave precision out."
            )
        if config is not None or not _is_built(model):
            return config
        built = build_in_child(BuildRequest(model.path, precision or "", model.cache_folder))
        self._held.append(built)
        return built.config


def _is_built(model: ModelSettings) -> bool:
    """Whether a model generates text once its decoder is built: a GGUF file, and a folder of
    Hugging Face whose settings have a block for generation.
    """
    if model.path.endswith(GGUF):
        return True
    return model.generation is not None and os.path.isdir(model.path)


def _decoder(model: ModelSettings, config: str) -> ModelSettings:
    """The settings of a decoder, which several ranks can only run sliced."""
    several = (model.ranks or 1) > 1 and model.slice is None
    sliced = f"tensor={model.ranks}" if several else model.slice
    return replace(model, path=config, name=model.label, slice=sliced)


def _replicas(model: ModelSettings, mesh: Mesh) -> int | None:
    """The replicas that settings ask for, by `replicas` or by the mesh."""
    if mesh.replicas == 1 or model.replicas == mesh.replicas:
        return model.replicas
    if model.replicas is not None:
        raise UsageError(
            f"model '{model.label}': slice={model.slice} has data={mesh.replicas}, and replicas is "
            f"{model.replicas}: make them equal, or leave one out."
        )
    return mesh.replicas


def _asked(model: ModelSettings) -> Mesh:
    """The mesh of ranks that settings ask for."""
    if model.slice != AUTO:
        return parse_mesh(str(model.slice), model.ranks)
    if model.ranks is None:
        raise UsageError(f"model '{model.label}': slice=auto needs the number of ranks: ranks=N.")
    return Mesh(model.ranks)
