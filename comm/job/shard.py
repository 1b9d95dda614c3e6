"""Shards of a model: from the MODEL that a user names to one path for each rank.

Between the plan of ranks and the model: a started rank loads the file that is its own, and the
modules of compiler/model_file read it.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ModelError
from ..text import counted
from .other_files import not_a_model


@dataclass(frozen=True, slots=True)
class Shards:
    """The files of one model: `count` numbered ones behind a pattern, or one for all ranks (1)."""

    pattern: str
    count: int

    @property
    def numbered(self) -> bool:
        """Whether every rank has a file of its own."""
        return RANK in self.pattern

    def path(self, rank: int) -> str:
        """The file of a rank, which may be missing; see `require`."""
        return _existing(self.pattern.replace(RANK, str(rank))) if self.numbered else self.pattern

    @property
    def bytes(self) -> int:
        """The bytes of all files, and of files beside them whose names begin alike.

        These may have the weights.
        """
        found: set[str] = set()
        for rank in range(self.count):
            stem = os.path.splitext(self.path(rank))[0].removesuffix("_graph")
            for path in glob.glob(f"{glob.escape(stem)}*"):
                found.update(glob.glob(f"{glob.escape(path)}/*") if os.path.isdir(path) else [path])
        return sum(os.path.getsize(path) for path in found if os.path.isfile(path))

    def require(self, world_size: int) -> None:
        """Raise ModelError unless there is a file for each of `world_size` ranks."""
        if not self.numbered:
            return
        missing = [self.path(r) for r in range(world_size) if not os.path.isfile(self.path(r))]
        if missing:
            raise ModelError(
                f"{missing[0]}: no such file, needed by one of {counted(world_size, 'rank')}. "
                f"{self.pattern} names {counted(self.count, 'file')}: copy the missing shards "
                f"there, or start {counted(self.count, 'rank')}."
            )


def find_shards(model: str) -> Shards:
    """Find the shards that MODEL names.

    MODEL is a file, a pattern with `{rank}`, or `NAME.mindir` where only `NAME0.mindir`,
    `NAME1.mindir`, ... or `NAME_graph.mindir` (a split model) exist. Raises ModelError with the
    names that were looked for.
    """
    if RANK in model:
        return _numbered(model)
    if os.path.isfile(_existing(model)):
        return Shards(_existing(model), 1)
    stem, suffix = os.path.splitext(model)
    if _numbers(f"{stem}{RANK}{suffix}"):
        return _numbered(f"{stem}{RANK}{suffix}")
    hint = not_a_model(model) or placeholder_hint(model)
    if hint:
        raise ModelError(hint)
    if os.path.isdir(model):
        raise ModelError(
            f"{model}: is a folder, expected a model file. Name a file in it, or a pattern such as "
            f"{os.path.join(model, f'model_{RANK}.mindir')}. A folder of Hugging Face is sliced "
            "first: --slice tensor=2, or slice=."
        )
    if os.path.exists(model):
        raise ModelError(f"{model}: is no regular file, expected a model file.")
    raise ModelError(
        f"{model}: no such file, nor {stem}_graph{suffix} (a split model), nor {stem}0{suffix}, "
        f"{stem}1{suffix}, ... (one per rank). "
        f"{meant(model) or f'Give a file or a pattern such as model_{RANK}.mindir.'}"
    )


def sibling_pattern(paths: Sequence[str]) -> str:
    """A pattern that fits the first of the ranks' `paths`, but not the others; or "".

    Each rank has a file of that pattern.
    """
    first = paths[0]
    for number in reversed(list(re.finditer("[0-9]+", first))):
        pattern = first[: number.start()] + RANK + first[number.end() :]
        meant = [pattern.replace(RANK, str(rank)) for rank in range(len(paths))]
        if meant != list(paths) and all(map(os.path.isfile, meant)):
            return pattern
    return ""


def _existing(path: str) -> str:
    """`path`, or the graph file of the split model of that name."""
    stem, suffix = os.path.splitext(path)
    split = f"{stem}_graph{suffix}"
    return split if not os.path.isfile(path) and os.path.isfile(split) else path


def _numbered(pattern: str) -> Shards:
    found = sorted(set(_numbers(pattern)))
    if not found:
        raise ModelError(
            f"{pattern}: no file matches. Expected {pattern.replace(RANK, '0')}, "
            f"{pattern.replace(RANK, '1')}, ..., one per rank. {meant(pattern)}".rstrip()
        )
    gaps = sorted(set(range(found[-1])) - set(found))
    if gaps:
        raise ModelError(
            f"{pattern.replace(RANK, str(gaps[0]))}: is missing: ranks {found} have a file, rank "
            f"{gaps[0]} has none. Copy it beside the others."
        )
    return Shards(pattern, len(found))


def _numbers(pattern: str) -> list[int]:
    stem, suffix = os.path.splitext(pattern)
    numbers = []
    for candidate in (pattern, f"{stem}_graph{suffix}"):
        expression = re.compile(
            re.escape(candidate)
            .replace(re.escape(RANK), r"(0|[1-9][0-9]{0,3})", 1)
            .replace(re.escape(RANK), r"\1")
        )
        for path in glob.glob(glob.escape(candidate).replace(glob.escape(RANK), "[0-9]*")):
            match = expression.fullmatch(path)
            numbers += [int(match.group(1))] if match else []
    return numbers


RANK = "{rank}"
_PLACEHOLDER = re.compile(r"\{[^{}/]*\}|<[^<>/]*>|%0?[0-9]*[dsi]|\*+|\?+|\[[^]/]*\]")
"""Placeholders for a number in other tools: globs, format strings, wrong names in braces."""
_NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,3})(?![0-9])")
_SUFFIXES = (".mindir", ".onnx")


def placeholder_hint(model: str) -> str:
    """A pattern with {rank} instead of another placeholder; empty where `model` has none."""
    folder, name = os.path.split(model)
    found = _PLACEHOLDER.search(name)
    if not found:
        return ""
    pattern = os.path.join(folder, f"{name[: found.start()]}{RANK}{name[found.end() :]}")
    return (
        f"{model}: no such file. For one file per rank use {RANK} where its number is, instead of "
        f"{found[0]}: '{pattern}'."
    )


def pattern_of(files: Sequence[str]) -> str:
    """The pattern that names exactly `files`, one for each rank in any order; or ""."""
    for start, end in (
        (found.start(), found.end()) for found in reversed([*_NUMBER.finditer(files[0])])
    ):
        pattern = f"{files[0][:start]}{RANK}{files[0][end:]}"
        if sorted(files) == sorted(pattern.replace(RANK, str(rank)) for rank in range(len(files))):
            return pattern
    return ""


def meant(model: str) -> str:
    """A question that names the model of the folder with the nearest name; or ""."""
    import difflib

    folder, name = os.path.split(model)
    near = difflib.get_close_matches(name, _names(folder), n=1)
    return f"Did you mean '{os.path.join(folder, near[0])}'?" if near else ""


def _names(folder: str) -> set[str]:
    """The models in a folder, one name for the files of all ranks."""
    paths = glob.glob(os.path.join(glob.escape(folder), "*"))
    names = {name for name in map(os.path.basename, paths) if name.endswith(_SUFFIXES)}
    return {_of_all_ranks(name, names) for name in names}


def _of_all_ranks(name: str, names: set[str]) -> str:
    """`name` with `{rank}` for its number, where rank 0 has such a file among `names` too."""
    for found in reversed([*_NUMBER.finditer(name)]):
        begin, end = name[: found.start()], name[found.end() :]
        if f"{begin}0{end}" in names:
            return f"{begin}{RANK}{end}"
    return name
