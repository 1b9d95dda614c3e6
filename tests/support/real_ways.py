"""Ways to run a model by Rankmesh's real processes: an orchestrator that loads model after model,
and the commands run, slice and convert.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from processes import rankmesh as command
from ways import RANKS, Array, Question, Way, saved_arrays

import rankmesh
from rankmesh.comm.errors import RankmeshError


@contextmanager
def orchestrated(first: Path) -> Iterator[Way]:
    """The way of an orchestrator that lives on; `first` is a model that it starts with."""
    with rankmesh.Orchestrator(str(first), cache=False, threads=1) as living:

        def way(question: Question) -> list[Array]:
            living.load(str(question.path), name="asked", cache=False, threads=1)
            try:
                found = living.predict(dict(question.feeds), model="asked")
            finally:
                living.unload("asked")
            names = [one.name for one in onnx.load(question.path).graph.output]
            return [found[name] for name in names]

        yield way


def run_command(question: Question) -> list[Array]:
    """`rankmesh run MODEL --inputs --save`."""
    return _run(question, question.path)


def slice_command(question: Question) -> list[Array]:
    """`rankmesh slice`, and `rankmesh run` of the shards."""
    folder = question.folder / "shards"
    _done("slice", question.path, "--ranks", RANKS, "-o", folder)
    return _run(question, folder / "model_rank{rank}.onnx")


def convert_command(question: Question) -> list[Array]:
    """`rankmesh convert`, and `rankmesh run` of the MindIR."""
    target = question.folder / "converted"
    _done("convert", "--fmk=ONNX", f"--modelFile={question.path}", f"--outputFile={target}")
    return _run(question, target.with_suffix(".mindir"))


def _run(question: Question, model: Path) -> list[Array]:
    saved = question.folder / "saved.npz"
    _done("run", model, "--inputs", question.inputs, "--save", saved)
    return saved_arrays(saved)


def _done(*arguments: object) -> None:
    """Run a command; its error as a RankmeshError, and a traceback as a fault."""
    ended = command(*arguments, RANKMESH_CACHE="off")
    if ended.returncode and "Traceback" in ended.stderr or ended.returncode < 0:
        raise AssertionError(f"exit status {ended.returncode}: {ended.stderr[-2000:]}")
    if ended.returncode:
        text = ended.stderr.strip() or ended.stdout.strip()
        raise RankmeshError(re.split(r"^rankmesh: ", text, flags=re.MULTILINE)[-1])


COMMANDS: dict[str, Way] = {
    "rankmesh run": run_command,
    "rankmesh slice": slice_command,
    "rankmesh convert": convert_command,
}
__all__ = ["COMMANDS", "orchestrated"]
