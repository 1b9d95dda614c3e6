"""What a user may have meant by a MODEL that is no file."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence

RANK = "{rank}"
_PLACEHOLDER = re.compile(r"\{[^{}/]*\}|<[^<>/]*>|%0?[0-9]*[dsi]|\*+|\?+|\[[^]/]*\]")
"""What other tools write where a number belongs: globs, format strings, misspelt names in braces."""
_NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,3})(?![0-9])")
_SUFFIXES = (".mindir", ".onnx")


def placeholder_hint(model: str) -> str:
    """What to write instead of a glob or another placeholder for the rank's number; empty where `model` has none."""
    folder, name = os.path.split(model)
    found = _PLACEHOLDER.search(name)
    if not found:
        return ""
    pattern = os.path.join(folder, f"{name[:found.start()]}{RANK}{name[found.end():]}")
    return (f"{model}: no such file. For one file per rank use {RANK} where its number is, instead of {found[0]}: "
            f"'{pattern}'.")


def pattern_of(files: Sequence[str]) -> str:
    """The pattern that names exactly `files`, one per rank in any order; empty where there is none."""
    for start, end in ((found.start(), found.end()) for found in reversed([*_NUMBER.finditer(files[0])])):
        pattern = f"{files[0][:start]}{RANK}{files[0][end:]}"
        if sorted(files) == sorted(pattern.replace(RANK, str(rank)) for rank in range(len(files))):
            return pattern
    return ""


def meant(model: str) -> str:
    """A question with the model in the same folder whose name is nearest; empty where none is near."""
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
        begin, end = name[:found.start()], name[found.end():]
        if f"{begin}0{end}" in names:
            return f"{begin}{RANK}{end}"
    return name
