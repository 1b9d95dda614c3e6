"""Request tensors: a caller's tensors become arrays of a program, and its results tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...comm.arrays import Array, Shape
from ...comm.errors import InputError
from ...comm.text import counted
from ..api_types.tensor import Tensor
from ..partition.plan import Signature
from ..runtime.input_check import defaults_of


def feed(
    signatures: Sequence[Signature], shapes: Sequence[list[int]], values: Sequence[Tensor | Array]
) -> dict[str, Array]:
    """One array per input, by name. `shapes` are those that the inputs have now, -1 where none was
    chosen.

    An array of another shape but of the right size in bytes is taken as if it had the input's
    shape. Optional inputs without data, or at the end, are left out. Raises InputError, naming the
    input.
    """
    return {
        signature.name: _fitted(signature, shape, _array(signature, value))
        for signature, shape, value in zip(signatures, shapes, values, strict=False)
        if signature.default is None or _given(value) is not None
    }


def all_fit(signatures: Sequence[Signature], shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a model's inputs may have these shapes, in order, as its program was built."""
    return all(one.fits(shape) for one, shape in zip(signatures, shapes, strict=True))


def shown_shape(shape: Shape | None) -> Shape:
    """A shape as users see it: MindSpore writes one dimension of -2 for an unknown rank."""
    return (-2,) if shape is None else shape


def least_inputs(signatures: Sequence[Signature]) -> int:
    """The number of inputs that a request has to give; they come first."""
    return sum(one.default is None for one in signatures)


def _given(value: Tensor | Array) -> Array | None:
    return value.data() if isinstance(value, Tensor) else value


def _array(signature: Signature, value: Tensor | Array) -> Array:
    array = _given(value)
    if array is None:
        raise InputError(
            f"the input '{signature.name}' never got any data: call set_data_from_numpy."
        )
    return array


def _fitted(signature: Signature, shape: list[int], array: Array) -> Array:
    wanted = signature.type.dtype
    if array.dtype != wanted:
        raise InputError(
            f"the input '{signature.name}' is {array.dtype}, expected {wanted}: convert it with "
            f"astype."
        )
    if list(array.shape) == shape:
        return array
    if min(shape, default=0) >= 0 and array.nbytes == prod(shape) * wanted.itemsize:
        return array.reshape(shape)
    if signature.fits(array.shape):
        return array
    raise InputError(
        f"the input '{signature.name}' has the shape {list(array.shape)}, expected {list(shape)} "
        f"(-1: any): pass that, or call resize first."
    )


def fill_outputs(
    signatures: Sequence[Signature], results: Mapping[str, Array], outputs: list[Tensor] | None
) -> list[Tensor]:
    """The results in the caller's tensors, in the order of the model; an empty list gets new
    ones.
    """
    if not outputs:
        outputs = [] if outputs is None else outputs
        outputs.extend(
            Tensor.of_result(name, array) for name, array in _listed(signatures, results)
        )
        return outputs
    if len(outputs) != len(signatures):
        raise InputError(
            f"the model has {counted(len(signatures), 'output')}, got "
            f"{counted(len(outputs), 'tensor')} for them."
        )
    for tensor, (name, array) in zip(outputs, _listed(signatures, results), strict=True):
        tensor.receive(name, array)
    return outputs


def _listed(
    signatures: Sequence[Signature], results: Mapping[str, Array]
) -> Iterator[tuple[str, Array]]:
    """The results as the model lists them; one that it lists again is a copy."""
    listed: set[str] = set()
    for signature in signatures:
        array = results[signature.name]
        yield signature.name, array.copy() if signature.name in listed else array
        listed.add(signature.name)


def input_arrays(signatures: Sequence[Signature], values: Sequence[Tensor]) -> list[Array]:
    """The data of a request's tensors in the order of the model's inputs.

    Raises InputError where there are more or fewer, or one never got any data.
    """
    if not least_inputs(signatures) <= len(values) <= len(signatures):
        raise InputError(f"model input len:{len(signatures)} not equal input len:{len(values)}!")
    defaults = defaults_of(signatures)
    missing = [defaults[one.name] for one in signatures[len(values) :]]
    pairs = zip(signatures, values, strict=False)
    return [
        defaults[one.name] if one.name in defaults and _given(value) is None else _array(one, value)
        for one, value in pairs
    ] + missing
