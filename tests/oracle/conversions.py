"""Converts ONNX models to MindIR, and compares what MindSpore computes with them with onnxruntime.

Runs in Rankmesh's environment; MindSpore has one of its own (`pip install mindspore`, numpy below
2):

    python tests/oracle/conversions.py JOURNAL_FOLDER --mindspore PYTHON [--networks FOLDER] [--only TEXT] [--again]
    python tests/oracle/conversions.py JOURNAL_FOLDER --report docs/conversion-results.md

The operators are the cases of tests/support/conversion_cases.py. FOLDER has networks as NAME.onnx, with inputs
by name in NAME.npz: bench/slicing_networks/export.py writes them, and conversions_networks.py those
that slicing has no use for. What stands in JOURNAL_FOLDER/journal.jsonl is not done again unless
--again asks for it. Files are deleted when they were compared.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from rankmesh.comm.errors import RankmeshError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "oracle")]

from conversion_cases import CASES  # noqa: E402
from conversion_expansions import EXPANSIONS  # noqa: E402
from conversion_models import MODELS, RANDOM  # noqa: E402
from conversions_report import report  # noqa: E402
from networks_report import Journal  # noqa: E402

RUNNER = Path(__file__).with_name("conversions_mindspore.py")
TOGETHER = 20
"""The number of models that one process of MindSpore runs."""
SECONDS = 400
"""The time that MindSpore has for them."""


@dataclass(frozen=True)
class Source:
    """A model that is converted, with its inputs by name."""

    name: str
    kind: str
    operators: Sequence[str]
    path: Path
    inputs: dict[str, np.ndarray]


def operators(folder: Path) -> Iterator[Source]:
    """The cases of single operators."""
    for at, case in enumerate([*CASES, *EXPANSIONS]):
        path = folder / f"operator_{at}.onnx"
        onnx.save(case.model(), path)
        inputs = {f"x{index}": value for index, value in enumerate(case.x)}
        yield Source(f"{at:03} {case}", "operator", [case.operator], path, inputs)


def models(folder: Path) -> Iterator[Source]:
    """The models with branches, loops and open sizes."""
    for at, (name, (text, inputs)) in enumerate(MODELS.items()):
        path = folder / f"model_{at}.onnx"
        model = onnx.parser.parse_model(text)
        onnx.save(model, path)
        given = dict(zip((one.name for one in model.graph.input), inputs, strict=True))
        named = name.partition(":")[0].split(", ")
        yield Source(name, "operator", named, path, given)


def networks(folder: Path) -> Iterator[Source]:
    """The networks in a folder."""
    for path in sorted(folder.glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as file:
            inputs = dict(file)
        yield Source(path.stem, "network", (), path, inputs)


def prepared(source: Source, stem: Path) -> dict[str, Any]:
    """Write the MindIR file of a source, and an NPZ file with its inputs and expected outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The check is of the conversion: fused kernels round differently.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(source.path, options)
    inputs = {one.name: source.inputs[one.name] for one in session.get_inputs()}
    outputs = session.run(None, inputs)
    try:
        written = convert_model(ConversionSettings(str(source.path), str(stem)))
    except RankmeshError as error:
        return {"refused": str(error).replace(str(source.path), source.path.name)}
    arrays = {f"in_{at}": one for at, one in enumerate(inputs.values())}
    np.savez(f"{stem}.npz", **arrays, **{f"out_{at}": one for at, one in enumerate(outputs)})
    return {"primitives": primitives(written)}


def draws(path: Path) -> bool:
    """Whether a model draws random numbers: then only its shapes and dtypes are compared."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    return not (RANDOM - {"Dropout"}).isdisjoint(one.op_type for one in nodes)


def primitives(path: Path) -> list[str]:
    """The primitives of a MindIR file."""
    model = ModelProto()
    model.ParseFromString(path.read_bytes())
    return sorted({one.op_type for one in model.primitives})


def results(python: str, folder: Path, stems: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What MindSpore makes of the files, by their names; a file that ends its process is named."""
    found: dict[str, dict[str, Any]] = {}
    while left := [stem for stem in stems if stem not in found]:
        command = [python, str(RUNNER), str(folder), *left]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            lines, end = done.stdout, f"MindSpore's process ended with {done.returncode}"
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode()
            end = f"MindSpore took more than {SECONDS} s"
        entries = [json.loads(line) for line in lines.splitlines() if line.startswith('{"name"')]
        found |= {entry.pop("name"): entry for entry in entries}
        if len(entries) < len(left):
            found[left[len(entries)]] = {"error": end}
    return found


def check(sources: Sequence[Source], python: str, folder: Path, journal: Journal) -> None:
    """Convert and compare some models, and note what became of each."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    notes = {f"m{at}": prepared(one, folder / f"m{at}") for at, one in enumerate(sources)}
    outcomes = results(
        python, folder, [key for key, note in notes.items() if "refused" not in note]
    )
    for (key, note), source in zip(notes.items(), sources, strict=True):
        entry = {"name": source.name, "kind": source.kind, "operators": list(source.operators)}
        outcome = outcomes.get(key, {})
        if "gap" in outcome and source.kind == "network" and draws(source.path):
            outcome = {"random": True}
        journal.add({**entry, **note, **outcome})
    shutil.rmtree(folder)


def main() -> None:
    """See the module's docstring."""
    options = _options()
    journal = Journal(options.folder / "journal.jsonl")
    if options.report:
        options.report.write_text(report(journal.latest()))
        return
    sources_folder = options.folder / "operators"
    sources_folder.mkdir(parents=True, exist_ok=True)
    found = list(networks(options.networks)) if options.networks else []
    found += [*operators(sources_folder), *models(sources_folder)]
    done = {} if options.again else journal.latest()
    wanted = [one for one in found if one.name not in done and options.only in one.name]
    for start in range(0, len(wanted), TOGETHER):
        some = wanted[start : start + TOGETHER]
        check(some, options.mindspore, options.folder / "files", journal)
    shutil.rmtree(sources_folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mindspore", metavar="PYTHON")
    parser.add_argument("--networks", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
