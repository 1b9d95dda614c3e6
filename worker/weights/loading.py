"""Weights from files of a model's ranks, for an update."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...comm.errors import InputError
from ...comm.shard import RANK
from .files import read_weights

if TYPE_CHECKING:
    from .names import WeightNames
    from .owner import Owner

Array = NDArray[Any]
_LOG = logging.getLogger("rankmesh")


def weights_from(path: str, owner: Owner, layout: Mapping[str, int] | None = None) -> dict[str, Array]:
    """The weights of `owner`'s model in a file, by the plan's names; `{rank}` in the path is the owner's rank.

    `layout` says along which axis a full weight is cut for the ranks, by name or pattern (`*.fc1.weight`); what it
    does not name is taken whole. A MindIR file may hold parameters that the model has and no node uses: they are
    skipped. Raises InputError, naming file and weight.
    """
    path = path.replace(RANK, str(owner.rank.rank))
    found: dict[str, Array] = {}
    for name, array in read_used(path, owner.names, owner.path).items():
        try:
            weight = owner.names.find(name)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if weight in found:
            raise InputError(f"{path}: '{name}' and another of its names mean the weight '{weight}'.")
        found[weight] = _part(path, name, array, owner, layout or {})
    return found


def read_used(path: str, names: WeightNames, model: str) -> dict[str, Array]:
    """All tensors of a file for the model at the path `model`, but for those of a MindIR that no node of it uses."""
    read = read_weights(path)
    unused = _unused(path, read, names, model) if path.endswith(".mindir") else set()
    return {name: array for name, array in read.items() if name not in unused}


def require_same_file(fd: int, path: str) -> None:
    """InputError unless `path` is the file that `fd` has open: who sent both may read it."""
    try:
        same = os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError as error:
        raise InputError(f"{path}: this process cannot find the file: {error.strerror}.") from error
    if not same:
        raise InputError(f"{path}: this process finds another file there than the one that was meant: both must see "
                         f"the same file system.")


def _unused(path: str, read: Mapping[str, Array], names: WeightNames, model: str) -> set[str]:
    """Parameters of the model's own file that none of its nodes takes, or that it assigns to."""
    unused = {name for name in read.keys() & names.others if not names.known(name)}
    if unused:
        _LOG.info("%s: left out, as no update of %s means them: %s", path, model, ", ".join(sorted(unused)))
    return unused


def _part(path: str, name: str, array: Array, owner: Owner, layout: Mapping[str, int]) -> Array:
    axes = [axis for pattern, axis in layout.items() if fnmatch.fnmatchcase(name, pattern)]
    if not axes:
        return array
    axis, ranks = axes[0], owner.rank.world_size
    if not -array.ndim <= axis < array.ndim or array.shape[axis] % ranks:
        raise InputError(f"{path}: '{name}' has the shape {list(array.shape)}, which cannot be cut into {ranks} equal "
                         f"parts along axis {axis}.")
    size = array.shape[axis] // ranks
    cut = [slice(None)] * array.ndim
    cut[axis] = slice(owner.rank.rank * size, (owner.rank.rank + 1) * size)
    part: Array = array[tuple(cut)]
    return part
