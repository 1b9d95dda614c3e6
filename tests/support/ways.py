"""All ways in which Rankmesh runs a model file, each in this process or by its real processes.

A way takes the file, and gives the outputs by their position, or raises. `Verdict` says how one
ended: with the answer of onnxruntime, with a refusal for the user, or with a fault.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from thread_ranks import in_threads

import rankmesh
from rankmesh.comm.errors import RankmeshError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.rendezvous import Rendezvous, SingleRank
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.refused_model import refused_by_onnxruntime
from rankmesh.compiler.slicing.emission.verify import verify
from rankmesh.compiler.slicing.emission.write import write_shard
from rankmesh.compiler.source_graph.structure import slicing_fingerprint
from rankmesh.launch.rank.job import RunJob
from rankmesh.launch.rank.run_rank import run_rank
from rankmesh.worker.executors.settings import ExecutorSettings, PrecisionSettings
from rankmesh.worker.runtime.program_spec import ProgramSpec

Array = np.ndarray[Any, Any]
RANKS = 2
_RANKS_DIFFER = 1e-3
"""The largest relative difference between ranks, which may order their sums differently."""


@dataclass(frozen=True)
class Question:
    """A model file with the inputs to run it on, and an empty folder of the way that does."""

    path: Path
    feeds: Mapping[str, Array]
    folder: Path

    @property
    def inputs(self) -> str:
        """The NPZ file of the inputs, by number."""
        return str(self.path.with_name("inputs.npz"))


Way = Callable[[Question], Sequence[Array]]


def oracle(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs that onnxruntime alone gives; raises its own errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(feeds))
    return found


def run(question: Question) -> list[Array]:
    """`rankmesh run MODEL --inputs --save`, in this process."""
    return _run(question, question.path)


def torch(question: Question) -> list[Array]:
    """The same by the executor torch."""
    return _run(question, question.path, "torch")


def _run(question: Question, path: Path, executor: str = "", ranks: int = 1) -> list[Array]:
    settings = ExecutorSettings("cpu", 0, 1, spin=False, name=executor)
    spec = ProgramSpec(str(path), settings, PrecisionSettings.default("cpu"), same_inputs=True)
    saved = str(question.folder / "saved_{rank}.npz")
    job = RunJob(spec, ranks, None, question.inputs, None, saved, None, None, 0)
    if ranks > 1:
        in_threads(ranks, lambda rendezvous: _ran(job, rendezvous))
    else:
        _ran(job, SingleRank(Rank(0, 1, 0, 1, "testhost", 0)))
    answers = [saved_arrays(Path(saved.replace("{rank}", str(rank)))) for rank in range(ranks)]
    for other in answers[1:]:
        wrong = difference(other, answers[0], _RANKS_DIFFER)
        assert not wrong, f"the ranks differ: {wrong}"
    return answers[0]


def _ran(job: RunJob, rendezvous: Rendezvous) -> None:
    run_rank(job, rendezvous)


def saved_arrays(path: Path) -> list[Array]:
    """The outputs that a run has saved."""
    with np.load(path) as file:
        return [file[f"out_{index}"] for index in range(len(file.files))]


def model(question: Question) -> list[Array]:
    """A Model that is built, and takes arrays as the file declares them."""
    built = rankmesh.Model()
    built.build_from_file(str(question.path), rankmesh.ModelType.MINDIR)
    found = built.predict(_ordered(built, question.feeds))
    return [one.get_data_to_numpy() for one in found]


def resized(question: Question) -> list[Array]:
    """A Model that is resized to the shapes of the inputs first, and says the shapes of outputs."""
    built = rankmesh.Model()
    built.build_from_file(str(question.path), rankmesh.ModelType.MINDIR)
    inputs = built.get_inputs()
    shapes = [list(getattr(question.feeds.get(one.name), "shape", one.shape)) for one in inputs]
    built.resize(inputs, shapes)
    promised = [list(one.shape) for one in built.get_outputs()]
    found = [one.get_data_to_numpy() for one in built.predict(_ordered(built, question.feeds))]
    for shape, array in zip(promised, found, strict=True):
        assert _promised(shape, array), f"promised {shape}, gave {array.shape}"
    return found


def _promised(shape: Sequence[int], array: Array) -> bool:
    """Whether an array is of a shape that a Model said, where [-2] is of unknown rank."""
    if list(shape) == [-2]:
        return True
    fits = (a in (-1, b) for a, b in zip(shape, array.shape, strict=False))
    return len(shape) == array.ndim and all(fits)


def _ordered(built: rankmesh.Model, feeds: Mapping[str, Array]) -> list[Array | rankmesh.Tensor]:
    """What to predict on: a tensor without data has its default."""
    return [feeds.get(one.name, one) for one in built.get_inputs()]


def sliced(question: Question) -> list[Array]:
    """`rankmesh slice` for two ranks with its proof, without a trial of shards by processes of
    their own; then the ranks, in threads.
    """
    plan = rankmesh.plan_slices(str(question.path), ranks=RANKS, seconds=2.0)
    stem = question.folder / "model"
    with refused_by_onnxruntime(str(question.path)):
        mark = slicing_fingerprint(plan.graph, plan.to_json())
        shards = [
            write_shard(plan.graph, plan.slices, rank, stem, mark, None, "rankmesh")
            for rank in range(RANKS)
        ]
        verify(plan.graph, plan.slices, stored=[one.stored for one in shards])
    return _run(question, question.folder / "model_rank{rank}.onnx", ranks=RANKS)


def converted(question: Question) -> list[Array]:
    """`rankmesh convert`, and a run of the MindIR."""
    settings = ConversionSettings(str(question.path), str(question.folder / "converted"))
    return _run(question, convert_model(settings))


WAYS: dict[str, Way] = {
    "run": run,
    "model": model,
    "resize": resized,
    "torch": torch,
    "slice": sliced,
    "convert": converted,
}


@dataclass(frozen=True)
class Verdict:
    """How a way ended: "right", "wrong", "answered" (where nothing is there to compare with),
    "refused" or "fault"; the text that says more, and the outputs.
    """

    kind: str
    text: str = ""
    arrays: Sequence[Array] = ()

    @property
    def answers(self) -> bool:
        return self.kind in ("right", "wrong", "answered")


def verdict(
    way: Way,
    path: Path,
    feeds: Mapping[str, Array],
    wanted: Sequence[Array] | None,
    tolerance: float,
) -> Verdict:
    """Run a way, and compare with `wanted`; where that is None, any answer is "answered"."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = way(Question(path, feeds, Path(folder)))
        except RankmeshError as error:
            return Verdict("refused", str(error))
        except Exception as error:
            return Verdict("fault", f"{type(error).__name__}: {error}")
    if wanted is None:
        return Verdict("answered", "", found)
    wrong = difference(found, wanted, tolerance)
    return Verdict("wrong" if wrong else "right", wrong, found)


def difference(found: Sequence[Array], wanted: Sequence[Array], tolerance: float) -> str:
    """How outputs differ; "" where they do not."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, expected {len(wanted)}"
    for index, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape:
            return f"output {index} has the shape {a.shape}, expected {b.shape}"
        if a.dtype != b.dtype and "bfloat16" not in (a.dtype.name, b.dtype.name):  # no NPZ holds it
            return f"output {index} is of {a.dtype}, expected {b.dtype}"
        if not same(a, b, tolerance):
            return f"output {index} is {a.ravel()[:6]}, expected {b.ravel()[:6]}"
    return ""


def same(a: Array, b: Array, tolerance: float) -> bool:
    """Whether two arrays of one shape are the same, in relation to the largest number."""
    if b.dtype.kind in "biu" or not b.size:
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(y[np.isfinite(y)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
