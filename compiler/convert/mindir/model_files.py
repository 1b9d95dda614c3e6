"""Model files: one MindIR file, or a graph and its variables, written aside and renamed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, BinaryIO

from ....comm.errors import UsageError
from ...mindir.mindir_pb2 import ModelProto
from .file_writer import SINGLE_FILE, WeightElements, write_single, write_variables
from .segmented_file import CountedFile, PlainFile, SegmentedFile

if TYPE_CHECKING:
    from .encryption import Encryption

Progress = Callable[[str, int, int], None]


def write_model_files(
    model: ModelProto,
    weights: Sequence[WeightElements],
    stem: Path,
    encryption: Encryption | None,
    progress: Progress | None,
) -> Path:
    """Write STEM.mindir, or for weights of more than 1 GiB STEM_graph.mindir and the folder
    STEM_variables; returns the file to load. UsageError where they cannot be written.
    """
    split = sum(one.nbytes for one in weights) > SINGLE_FILE
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(mkdtemp(prefix=f".{stem.name}.", dir=stem.parent))
        try:
            writer = _ModelFiles(aside, stem.name, encryption, progress)
            names = writer.split(model, weights) if split else writer.single(model, weights)
            for name in names:
                _replace(aside / name, stem.parent / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            f"{error.filename or stem}: cannot be written: {error.strerror}."
        ) from error
    return stem.parent / names[-1]


class _ModelFiles:
    """The files of one model in a folder aside; what is written is told as progress."""

    def __init__(
        self, folder: Path, name: str, encryption: Encryption | None, progress: Progress | None
    ) -> None:
        self._folder = folder
        self._name = name
        self._encryption = encryption
        self._progress = progress

    def single(self, model: ModelProto, weights: Sequence[WeightElements]) -> list[str]:
        """One file; returns its name."""
        name = f"{self._name}.mindir"
        with (self._folder / name).open("wb") as file:
            write_single(self._through(file, weights), model, weights)
        return [name]

    def split(self, model: ModelProto, weights: Sequence[WeightElements]) -> list[str]:
        """A folder of variables, and a graph; returns their names, the graph's last."""
        folder = f"{self._name}_variables"
        (self._folder / folder).mkdir()
        with (self._folder / folder / "data_0").open("wb") as file:
            places = write_variables(self._through(file, weights), weights)
        for record, (offset, length) in zip(model.graph.parameter, places, strict=True):
            external = record.external_data
            external.location = f"{folder}/data_0"
            external.offset, external.length = offset, length
        name = f"{self._name}_graph.mindir"
        with (self._folder / name).open("wb") as file:
            through = self._through(file, ())
            through.write(model.SerializeToString())
            through.end_segment()
        return [folder, name]

    def _through(self, file: BinaryIO, weights: Sequence[WeightElements]) -> SegmentedFile:
        total = sum(one.nbytes for one in weights)
        told = CountedFile(file, total, self._progress or _silent)
        if self._encryption is None:
            return PlainFile(told)
        from .encryption import EncryptedFile

        return EncryptedFile(told, self._encryption)


def _silent(what: str, done: int, total: int) -> None:
    """Progress that is not shown."""


def _replace(source: Path, target: Path) -> None:
    """Rename a file or a folder, in place of one that may be there."""
    if target.is_dir() and not target.is_symlink():
        target.rename(source.parent / f"{target.name}.old")
    source.rename(target)
