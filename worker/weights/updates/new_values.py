"""New values of weights: arrays by the plan's names, from files or from a script's tensors."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence

from ....comm.arrays import Array
from ....comm.errors import InputError
from ....comm.job.rank import Rank
from ....comm.job.shard import RANK
from ....comm.loggers import LOG
from ....comm.text import counted
from ...api_types.arguments import check_elements, check_type
from ...api_types.tensor import Tensor
from .files import read_weights
from .names import WeightNames


def weights_from(
    path: str, names: WeightNames, rank: Rank, layout: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The weights in a file, by the plan's names; `{rank}` in the path stands for the rank.

    `layout` gives the axis along which a full weight is cut for the ranks, by name or pattern
    (`*.fc1.weight`); any other weight is taken whole. Parameters of a MindIR file that no node
    uses are skipped. Raises InputError, naming file and weight.
    """
    path = path.replace(RANK, str(rank.rank))
    found: dict[str, Array] = {}
    for name, array in read_used(path, names).items():
        try:
            weight = names.find(name)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if weight in found:
            raise InputError(
                f"{path}: '{name}' and another of its names mean the weight '{weight}'."
            )
        found[weight] = _part(path, name, array, rank, layout or {})
    return found


def read_used(path: str, names: WeightNames) -> dict[str, Array]:
    """All tensors of a file; of a MindIR file without parameters that the model does not use."""
    read = read_weights(path)
    unused = _unused(path, read, names) if path.endswith(".mindir") else set()
    return {name: array for name, array in read.items() if name not in unused}


def require_same_file(fd: int, path: str) -> None:
    """Raise InputError unless `path` is the file that `fd` has open.

    The sender of both may read the file behind `fd`; this process may read others.
    """
    try:
        same = os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError as error:
        raise InputError(f"{path}: this process cannot find the file: {error.strerror}.") from error
    if not same:
        raise InputError(
            f"{path}: this process finds another file there than the one that was meant: both must "
            "see the same file system."
        )


def check_weights(weights: object) -> None:
    """Raise TypeError, in MindSpore Lite's words, unless `weights` is a list of Tensor lists."""
    check_type("weights", weights, list)
    for weight in weights:  # type: ignore[attr-defined]
        check_type("weight", weight, list)
        check_elements("weights", weight, Tensor, "Tensor")


def weights_of_tensors(weights: Sequence[Sequence[Tensor]], names: WeightNames) -> dict[str, Array]:
    """The arrays of successive updates, by the plan's names; the last one for a weight counts."""
    found: dict[str, Array] = {}
    for tensors in weights:
        found.update(_named(tensors, names))
    if not found:
        raise InputError("got no tensors to update weights with.")
    return found


def _unused(path: str, read: Mapping[str, Array], names: WeightNames) -> set[str]:
    """Parameters of a file that no node of the model takes, or that the model assigns to."""
    unused = {name for name in read.keys() & names.others if not names.known(name)}
    if unused:
        listed = ", ".join(sorted(unused))
        LOG.info("%s: left out, as no update of %s means them: %s", path, names.path, listed)
    return unused


def _part(path: str, name: str, array: Array, rank: Rank, layout: Mapping[str, int]) -> Array:
    """The rank's part of a full weight, cut along the first axis that `layout` gives for it."""
    axes = [axis for pattern, axis in layout.items() if fnmatch.fnmatchcase(name, pattern)]
    if not axes:
        return array
    axis, ranks = axes[0], rank.world_size
    if not -array.ndim <= axis < array.ndim or array.shape[axis] % ranks:
        raise InputError(
            f"{path}: '{name}' has the shape {list(array.shape)}, which cannot be cut into {ranks} "
            f"equal parts along axis {axis}."
        )
    size = array.shape[axis] // ranks
    cut = [slice(None)] * array.ndim
    cut[axis] = slice(rank.rank * size, (rank.rank + 1) * size)
    part: Array = array[tuple(cut)]
    return part


def _named(tensors: Sequence[Tensor], names: WeightNames) -> dict[str, Array]:
    """Arrays by name. Tensors without names stand for the listed weights, if they are as many."""
    if tensors and not any(tensor.name for tensor in tensors):
        if len(tensors) != len(names.listed):
            raise InputError(
                f"got {counted(len(tensors), 'tensor')} without a name, and variable_weights_file "
                f"lists {counted(len(names.listed), 'weight')}: set Tensor.name to the weight's."
            )
        return {
            name: _array(tensor, name) for tensor, name in zip(tensors, names.listed, strict=True)
        }
    found: dict[str, Array] = {}
    for tensor in tensors:
        name = names.find(tensor.name)
        if name in found:
            raise InputError(
                f"two tensors of one update are for the weight '{name}', the second is "
                f"'{tensor.name}'."
            )
        found[name] = _array(tensor, tensor.name)
    return found


def _array(tensor: Tensor, name: str) -> Array:
    array = tensor.data()
    if array is None:
        raise InputError(f"the tensor for '{name}' never got any data: call set_data_from_numpy.")
    return array
