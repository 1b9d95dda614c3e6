"""Hugging Face models: exported from a folder, with their weights mapped from safetensors files.

transformers maps the files: the tensors of the ONNX model are views of them. Nothing is fetched,
and no code of the folder is run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

import torch
import transformers

from ...comm.errors import ModelError
from .export import ExportRequest, export

if TYPE_CHECKING:
    import onnx_ir as ir

_BATCH, _SEQUENCE, _DECODED = 2, 7, 5
"""Sizes of the example inputs. They differ from one another and from 1, so that they stay open."""

_PREFIX = "network."


class LoadingReport(TypedDict):
    """The report of transformers on a loading: weights that are missing or have other shapes."""

    missing_keys: Collection[str]
    mismatched_keys: Collection[tuple[str, Sequence[int], Sequence[int]]]


class TensorOutputs(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A model that takes tensors by position, and returns tensors alone, without caches.

    `inputs` has the names of what it takes; `note` is told the names of what it returns, as the
    exporter undoes changes of attributes.
    """

    def __init__(
        self, network: torch.nn.Module, inputs: Sequence[str], note: Callable[[str], object]
    ) -> None:
        super().__init__()
        self.network = network
        self.inputs = list(inputs)
        self.note = note

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors that the model returns."""
        inputs = dict(zip(self.inputs, tensors, strict=True))
        has_cache = hasattr(self.network.config, "use_cache")
        found = self.network(**inputs, **({"use_cache": False} if has_cache else {}))
        results = {key: one for key, one in found.items() if isinstance(one, torch.Tensor)}
        for name in results:
            self.note(name)
        return tuple(results.values())


def hugging_face_model(folder: str) -> ir.Model:
    """The ONNX model of a folder with config.json and safetensors files.

    Batch and sequence are open dimensions. ModelError where transformers does not know or cannot
    load the model, or where its inputs are unknown.
    """
    network = _load(folder)
    inputs, shapes = _inputs(network, folder)
    names: dict[str, None] = {}
    module = TensorOutputs(network, list(inputs), names.setdefault).eval()
    arguments, axes = tuple(inputs.values()), (tuple(shapes[name] for name in inputs),)
    model = export(ExportRequest(module, arguments, {}, axes, list(inputs)), folder)
    for value, name in zip(model.graph.outputs, names, strict=True):
        value.name = name
    for name, weight in list(model.graph.initializers.items()):
        if name.startswith(_PREFIX):
            own = name.removeprefix(_PREFIX)
            weight.name = network.all_tied_weights_keys.get(own, own)  # as the files call it
    return model


def _load(folder: str) -> torch.nn.Module:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    known = transformers.AutoConfig
    with _loading(folder):
        config = known.from_pretrained(  # nosec B615  # no download
            folder,
            local_files_only=True,
            trust_remote_code=False,  # left out, transformers asks at the terminal
        )
    kind = _class_of(config, folder)
    config._experts_implementation = "batched_mm"  # the default has no ONNX operators
    with _loading(folder):
        network, report = kind.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            use_safetensors=True,
            dtype="auto",
            attn_implementation="eager",
            ignore_mismatched_sizes=True,  # the report has them
            output_loading_info=True,
        )
    _require_all(report, kind.__name__, folder)
    loaded: torch.nn.Module = network
    return loaded


@contextmanager
def _loading(folder: str) -> Iterator[None]:
    """Turn errors of transformers and its packages into a ModelError that names the folder."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # of many classes, for files that may hold anything
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ModelError(
            f"{folder}: transformers {transformers.__version__} cannot load it: "
            f"{' '.join(lines[: 1 + lines[0].endswith(':')]) if lines else type(error).__name__}"
        ) from error


def _require_all(report: LoadingReport, kind: str, folder: str) -> None:
    """ModelError unless the files have all weights, in the shapes of the configuration."""
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{folder}: its safetensors files lack {len(missing)} weights of {kind}, such as "
            f"{missing[0]}: copy all files of the model."
        )
    for name, found, expected in sorted(report["mismatched_keys"]):
        raise ModelError(
            f"{folder}: the weight {name} has the shape {list(found)}, and config.json makes it "
            f"{list(expected)}: copy the configuration that belongs to the weights."
        )


def _class_of(
    config: transformers.PreTrainedConfig, folder: str
) -> type[transformers.PreTrainedModel]:
    """The class that the configuration names."""
    names = config.architectures
    name = str(names[0]) if isinstance(names, list) and names else "none"
    found = getattr(transformers, name, None)
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found
    raise ModelError(
        f"{folder}: config.json has the architecture {name}, which transformers "
        f"{transformers.__version__} does not have. Code in the folder is never run. Install a "
        "later transformers, or export the model with rankmesh.torch.slice."
    )


def _inputs(
    network: torch.nn.Module, folder: str
) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Mapping[int, str]]]:
    """Example inputs of a model, and their open dimensions."""
    config, main = network.config, network.main_input_name
    if main == "input_ids":
        ids = torch.ones(_BATCH, _SEQUENCE, dtype=torch.int64)
        axes = {0: "batch", 1: "sequence"}
        mask = torch.ones_like(ids)  # not ids: the exporter takes one tensor for one input
        inputs, shapes = {main: ids, "attention_mask": mask}, {main: axes, "attention_mask": axes}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.ones(_BATCH, _DECODED, dtype=torch.int64)
            shapes["decoder_input_ids"] = {0: "batch", 1: "decoder_sequence"}
        return inputs, shapes
    size = getattr(config, "image_size", None)
    if main == "pixel_values" and size is not None:
        sides = [size, size] if isinstance(size, int) else list(size)
        channels = getattr(config, "num_channels", 3)
        return {main: torch.zeros(_BATCH, channels, *sides)}, {main: {0: "batch"}}
    raise ModelError(
        f"{folder}: {type(network).__name__} takes {main}, and Rankmesh exports models of "
        "input_ids, or of pixel_values with an image_size. Use rankmesh.torch.slice for this one."
    )
