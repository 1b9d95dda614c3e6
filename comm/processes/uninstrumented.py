"""Uninstrumented ranks: their processes run without OpenTelemetry's automatic instrumentation.

`opentelemetry-instrument` puts a folder on PYTHONPATH, from which every Python process that is
started imports the SDK. In ranks that would cost time and memory, and nothing would be traced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_FOLDER = os.path.join("opentelemetry", "instrumentation", "auto_instrumentation")
_PATH = "PYTHONPATH"


def uninstrumented(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a rank needs besides those of `environ`: PYTHONPATH without the folder,
    where that is in it.
    """
    folders = environ.get(_PATH, "").split(os.pathsep)
    others = [one for one in folders if not one.rstrip(os.sep).endswith(_FOLDER)]
    return {} if len(others) == len(folders) else {_PATH: os.pathsep.join(others)}
