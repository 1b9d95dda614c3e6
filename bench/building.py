"""A process that builds one model when told to: `building.py rankmesh|onnxruntime MODEL`.

It imports what building needs, prints `ready`, waits for a line, builds, prints the seconds that
this took as JSON, and keeps the model until its standard input ends.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def with_rankmesh(path: str) -> Callable[[], object]:
    """The public API: what a user's script does."""
    import rankmesh.compiler.lowering.lower_mindir
    import rankmesh.compiler.mindir.reader
    import rankmesh.worker.cache.build_cache
    import rankmesh.worker.executors.onnxruntime
    import rankmesh.worker.session.session  # noqa: F401
    from rankmesh import Context, Model, ModelType
    from rankmesh.compiler.lowering.builder.registry import lowering_of, supported

    all(map(lowering_of, supported()))  # families are imported on demand
    context = Context()
    context.target = ["cpu"]

    def build() -> Model:
        model = Model()
        model.build_from_file(path, ModelType.MINDIR, context)
        return model

    return build


def with_onnxruntime(path: str) -> Callable[[], object]:
    """onnxruntime as it is."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    return lambda: ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main() -> None:
    who, path = sys.argv[1:]
    build = with_rankmesh(path) if who == "rankmesh" else with_onnxruntime(path)
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    model = build()
    print(json.dumps(time.perf_counter() - start), flush=True)
    sys.stdin.read()
    del model


if __name__ == "__main__":
    main()
