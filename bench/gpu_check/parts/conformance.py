"""Conformance: MindSpore's recorded primitives and networks on the torch executor, on a device."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from recorded_runs import FAMILIES, NAMED, RUNS, computed, differences, draws, label

from rankmesh import Context, Model, ModelType
from rankmesh.compiler.lowering.unsupported import unsupported
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.worker.executors.torch import TorchExecutor

from ..figures import Figure, Skipped

DATA = Path(__file__).parents[3] / "tests" / "data" / "mindir"
TOLERANCE = {"float32": 1e-5, "float64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Of the largest element."""
_FURTHER = {"float32": 1e-4, "float64": 1e-4}
"""For a network whose results are the same on a CPU: some of MindSpore's own kernels, of tanh and
of others, are that far from those of torch and onnxruntime."""
_SECONDS = 70.0
"""For the primitives; those of a GPU whose processor is slow are cut short, and counted."""
_ONE_OF = {"gpu": 1, "cpu": 60}
_FAMILIES = 50
_NETWORKS_ON_CPU = ("fp16_mlp", "cf_while", "lenet5")
_LEFT_OUT = "^(dist|enc|state)_|exportonly"
"""Networks of several ranks, encrypted ones, those of several requests, and without results."""


def measure(device: str) -> list[Figure]:
    """How many primitives and networks ran, and how many of them differ."""
    if not RUNS:
        raise Skipped("tests/data/primitives is not there: check out the tests too")
    primitives, ran, random = _primitives(device)
    chosen = _networks() if device == "gpu" else _NETWORKS_ON_CPU
    wrong = [name for name in chosen if _shown(name, partial(_network, name, device))]
    return [
        Figure("primitives that ran", ran, f"of {len(RUNS)}"),
        Figure("of these, with random results: compared by shape and dtype", random),
        Figure("primitives that differ from MindSpore", primitives, most=0),
        Figure("networks that ran", len(chosen)),
        Figure("networks that differ from MindSpore", len(wrong), most=0),
    ]


def _primitives(device: str) -> tuple[int, int, int]:
    """How many recorded primitives differ, how many ran, and how many draw random numbers."""
    executor, end, ran, wrong = TorchExecutor(device), time.monotonic() + _SECONDS, 0, 0
    random: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, run in enumerate(_spread(_ONE_OF[device])):
            if time.monotonic() > end:
                break
            path = Path(scratch, f"{number}.mindir")
            wrong += _shown(label(run), partial(_primitive, run, path, executor, random))
            ran += 1
    return wrong, ran, len(random)


def _spread(one_of: int) -> list[tuple[str, int]]:
    """Every so many recorded primitives; the first ones are of all families."""
    chosen = RUNS[::one_of]
    return [run for start in range(_FAMILIES) for run in chosen[start::_FAMILIES]]


def _primitive(
    run: tuple[str, int], path: Path, executor: TorchExecutor, random: list[str]
) -> Sequence[str]:
    """How a primitive differs; one that draws random numbers is added to `random`."""
    family = FAMILIES[run[0]]
    record = family.records[run[1]]
    path.write_bytes(family.file(record))
    source = read_model(str(path))
    if unsupported(source):
        return []
    made = computed(source, path.parent, record, executor)
    wanted = list(family.results(record, NAMED.__getitem__))
    if draws(source):
        random.append(label(run))
        made, wanted = ([np.zeros_like(one) for one in each] for each in (made, wanted))
    return differences(record, made, wanted)


def _networks() -> list[str]:
    found = sorted(path.parent.name for path in DATA.glob("*/*.npz"))
    return [name for name in dict.fromkeys(found) if not re.search(_LEFT_OUT, name)]


def _network(name: str, device: str) -> Sequence[str]:
    """How the results of a network differ."""
    with np.load(DATA / name / f"{name}.npz") as arrays:
        saved = dict(arrays)
    outputs = _results(name, device, saved)
    wanted = [saved[f"out_{at}"] for at in range(len(outputs))]
    gaps = [_gap(*pair, TOLERANCE) for pair in zip(outputs, wanted, strict=True)]
    if device != "cpu" and any(gaps):
        for at, own in enumerate(_results(name, "cpu", saved)):
            if not _gap(outputs[at], own, TOLERANCE):
                gaps[at] = _gap(outputs[at], wanted[at], TOLERANCE | _FURTHER)
    return [f"output {at}: {gap}" for at, gap in enumerate(gaps) if gap]


def _results(name: str, device: str, saved: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    context, model = Context(), Model()
    context.target = [device]
    context.cpu.thread_num = 1
    model.build_from_file(str(DATA / name / f"{name}.mindir"), ModelType.MINDIR, context)
    inputs = [saved[f"in_{at}"] for at in range(len(saved)) if f"in_{at}" in saved]
    return [one.get_data_to_numpy().copy() for one in model.predict(inputs)]


def _gap(made: np.ndarray, reference: np.ndarray, allowed: Mapping[str, float]) -> str:
    """How an output differs; "" where it does not."""
    if made.shape != reference.shape or made.dtype != reference.dtype:
        return f"{made.dtype}{made.shape} and not {reference.dtype}{reference.shape}"
    if made.dtype.name not in allowed:
        return "" if np.array_equal(made, reference) else "not equal"
    mine, theirs = made.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True):
        return "other infinities"
    largest = np.abs(theirs[finite]).max(initial=1e-6)
    error = np.abs(mine[finite] - theirs[finite]).max(initial=0) / largest
    return "" if error <= allowed[made.dtype.name] else f"{error:.1e} of the largest element"


def _shown(what: str, run: Callable[[], Sequence[str]]) -> bool:
    """Whether something differs or fails; a line says how, in the output of the part."""
    try:
        found = run()
    except Exception as error:  # whatever it is, the others are still to be compared
        found = [f"{type(error).__name__}: {error}"]
    if found:
        print(f"{what}: {'; '.join(found)}"[:500])
    return bool(found)
