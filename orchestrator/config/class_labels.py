"""Labels of classes: read from the files that a model's settings name, one label per line."""

from __future__ import annotations

from collections.abc import Sequence

from ...comm.errors import UsageError
from ...comm.host.regular_file import read_regular
from ...comm.serving.tensor_spec import TensorSpec
from .settings import ServedSettings

_MOST = 1 << 26
ClassLabels = dict[str, tuple[str, ...]]
"""By the name of an output, the labels of its positions."""


def require_outputs(model: str, labels: ClassLabels, outputs: Sequence[TensorSpec]) -> None:
    """UsageError where labels are given for another name than an output's."""
    names = [spec.name for spec in outputs]
    for name in labels:
        if name not in names:
            raise UsageError(
                f"model '{model}': labels are given for '{name}', and the outputs are {names}."
            )


def class_labels_of(settings: ServedSettings) -> ClassLabels:
    """The labels of a model; UsageError where a file cannot be read."""
    found = {}
    for output, path in (settings.labels or {}).items():
        try:
            text = read_regular(path, _MOST).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise UsageError(
                f"model '{settings.label}': the labels of '{output}' cannot be read from {path}: "
                f"{reason}. Give a file with one label per line."
            ) from None
        found[output] = tuple(line.strip() for line in text.splitlines())
    return found
