"""Declared input shapes of a configuration: `input_shape`, `dynamic_dims` and `opt_dims`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...comm.arrays import Shape
from ...comm.errors import InputError, UsageError
from ...compiler.model_file.config import Config
from ..partition.plan import Signature
from .request_tensors import all_fit

Range = tuple[int, int]
Profile = tuple[Range, ...]
"""The ranges of the unknown dimensions of one input, in order."""
_MOST_GEARS, _LARGEST_BATCH = 100, 2048
_NUMBER = re.compile(r"-?\d{1,10}")
_RANGE = re.compile(r"(\d{1,10})(?:~(\d{1,10}))?")


@dataclass(frozen=True, slots=True)
class DynamicShapes:
    """Each input's shape by name, -1 where `profiles` say what may be there: one profile per choice
    of all inputs. `best` has the profiles of `opt_dims`, on a GPU.
    """

    section: str
    shapes: Mapping[str, Shape]
    profiles: Mapping[str, Sequence[Profile]]
    best: Mapping[str, Sequence[Profile]] = field(default_factory=dict)

    @classmethod
    def of(cls, target: str, config: Config) -> DynamicShapes | None:
        """The shapes that `config` declares for a target; None where there are none, and for a CPU.

        UsageError where the keys are malformed or do not belong together.
        """
        if target not in ("gpu", "ascend"):
            return None
        section = f"{target}_context"
        text, dims, opt = (
            config.bare(section, key) for key in ("input_shape", "dynamic_dims", "opt_dims")
        )
        if not text:
            if dims or opt:
                raise UsageError(
                    f"[{section}] has dynamic_dims or opt_dims without input_shape: name the "
                    f"inputs."
                )
            return None
        shapes = _shapes(section, text)
        profiles = _profiles(section, "dynamic_dims", dims, shapes)
        if target == "gpu":
            return cls(section, shapes, profiles, _best(section, opt, shapes, profiles))
        _check_gears(section, shapes, profiles)
        return cls(section, shapes, profiles)

    def bounds(self) -> dict[str, list[tuple[Shape, Shape, Shape]]]:
        """The least, best and largest shapes of each input with open dimensions, by profile."""
        return {
            name: [
                (
                    _filled(shape, [low for low, _ in ranges]),
                    _filled(shape, [best for best, _ in wanted]),
                    _filled(shape, [high for _, high in ranges]),
                )
                for ranges, wanted in zip(self.profiles[name], self.best[name], strict=True)
            ]
            for name, shape in self.shapes.items()
            if -1 in shape and name in self.best
        }

    def shapes_of(self, inputs: Sequence[Signature]) -> list[Shape]:
        """The declared shapes of a model's inputs, in its order; all dimensions are given, or they
        fit the model's.

        UsageError where they do neither, or name other inputs than the model has.
        """
        shapes = self.merged({signature.name: signature.type.shape for signature in inputs})
        if not closed(shapes) and not all_fit(inputs, shapes):
            raise UsageError(
                f"[{self.section}] input_shape changes fixed dimensions of the model, to "
                f"{[list(shape) for shape in shapes]}, and leaves others open: give every "
                f"dimension."
            )
        return shapes

    def merged(self, inputs: Mapping[str, Shape | None]) -> list[Shape]:
        """The declared shapes in the model's order, with the model's dimension where the
        declaration leaves it open.

        `inputs` are the model's by name, None for an unknown rank. UsageError where names or ranks
        differ.
        """
        unknown = sorted(self.shapes.keys() - inputs.keys())
        missing = sorted(inputs.keys() - self.shapes.keys())
        if unknown or missing:
            raise UsageError(
                f"[{self.section}] input_shape names {sorted(self.shapes)}, and the model's inputs "
                f"are {list(inputs)}: name each of them."
            )
        return [self._merged(name, shape) for name, shape in inputs.items()]

    def _merged(self, name: str, own: Shape | None) -> Shape:
        declared = self.shapes[name]
        if own is None:
            return declared
        if len(own) != len(declared):
            raise UsageError(
                f"[{self.section}] input_shape gives '{name}' the shape {list(declared)}, and the "
                f"model has {list(own)}: give as many dimensions."
            )
        return tuple(
            mine if theirs < 0 else theirs for theirs, mine in zip(declared, own, strict=True)
        )

    def check(self, shapes: Mapping[str, Shape]) -> None:
        """InputError unless all inputs fit one of the profiles; shapes without open dimensions fit
        only themselves.
        """
        for index in range(max(1, *map(len, self.profiles.values()))):
            if all(self._fits(name, shape, index) for name, shape in shapes.items()):
                return
        raise InputError(
            f"the shapes { ({name: list(shape) for name, shape in shapes.items()}) } are in "
            "none of the "
            f"profiles of [{self.section}]: add one to dynamic_dims, or pad the inputs."
        )

    def _fits(self, name: str, shape: Shape, index: int) -> bool:
        declared = self.shapes[name]
        if len(declared) != len(shape):
            return False
        if any(want not in (-1, have) for want, have in zip(declared, shape, strict=True)):
            return False
        chosen = [have for want, have in zip(declared, shape, strict=True) if want < 0]
        return all(
            low <= have <= high
            for have, (low, high) in zip(
                chosen, self.profiles[name][index] if chosen else (), strict=True
            )
        )


def closed(shapes: Sequence[Shape]) -> bool:
    """Whether no dimension is open."""
    return all(min(shape, default=1) > 0 for shape in shapes)


def _shapes(section: str, text: str) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, dims = part.rpartition(":")
        name, dims = name.strip(), dims.strip()
        bracketed = dims.startswith("[") and dims.endswith("]")
        if (
            not colon
            or not name
            or name in shapes
            or not (bracketed or (section == "ascend_context" and dims))
        ):
            raise _malformed(
                section, "input_shape", text, "name1:[-1,3,224,224];name2:[1,16], each name once"
            )
        shapes[name] = tuple(
            _dim(section, text, dim.strip())
            for dim in (dims[1:-1] if bracketed else dims).split(",")
        )
    return shapes


def _dim(section: str, text: str, dim: str) -> int:
    value = int(dim) if _NUMBER.fullmatch(dim) else 0
    if value < -1 or value == 0:
        raise _malformed(
            section, "input_shape", text, f"dimensions above 0, or -1 for any, not '{dim}'"
        )
    return value


def _profiles(
    section: str, key: str, text: str, shapes: Mapping[str, Shape]
) -> dict[str, list[Profile]]:
    """Each input's profiles, () for an input without open dimensions; the inputs are in the order
    of input_shape.
    """
    dynamic = {name: shape.count(-1) for name, shape in shapes.items() if -1 in shape}
    if dynamic and not text:
        raise UsageError(
            f"[{section}] input_shape leaves dimensions of {list(dynamic)} open (-1), and there is "
            f"no {key} that says what they may be, such as [1~4],[8]."
        )
    parts = [part.strip() for part in text.split(";")] if text else []
    names = list(dynamic) if len(parts) == len(dynamic) else list(shapes)
    if len(parts) != len(names) and dynamic:
        raise _malformed(
            section, key, text, f"one part per input of {list(shapes)}, separated by ';'"
        )
    profiles: dict[str, list[Profile]] = {name: [] for name in shapes}
    for name, part in zip(names, parts, strict=False):
        profiles[name] = [
            _profile(section, key, text, one, dynamic.get(name, 0))
            for one in _split(section, key, part)
        ]
    if len({len(profiles[name]) for name in dynamic}) > 1:
        raise UsageError(
            f"[{section}] {key} = {text}: the inputs have "
            f"{[len(profiles[name]) for name in dynamic]} profiles, expected as many for each."
        )
    return profiles


def _split(section: str, key: str, part: str) -> list[str]:
    compact = re.sub(r"\s", "", part)
    if not (compact.startswith("[") and compact.endswith("]")):
        raise _malformed(section, key, part, "profiles such as [1~4],[8],[16]")
    return compact[1:-1].split("],[")


def _profile(section: str, key: str, text: str, one: str, dims: int) -> Profile:
    entries = [_RANGE.fullmatch(entry) for entry in one.split(",")] if one else []
    ranges = tuple((int(match[1]), int(match[2] or match[1])) for match in entries if match)
    if len(ranges) < len(entries) or any(not 1 <= low <= high for low, high in ranges):
        raise _malformed(section, key, text, f"numbers or ranges min~max from 1 up, not '{one}'")
    if len(ranges) != dims:
        raise _malformed(
            section,
            key,
            text,
            f"{dims} entries in each profile, one per dimension of -1, not [{one}]",
        )
    return ranges


def _filled(shape: Shape, sizes: Sequence[int]) -> Shape:
    """A shape with sizes for its open dimensions."""
    rest = iter(sizes)
    return tuple(next(rest) if dim < 0 else dim for dim in shape)


def _best(
    section: str, text: str, shapes: Mapping[str, Shape], profiles: Mapping[str, Sequence[Profile]]
) -> dict[str, list[Profile]]:
    """On a GPU the dimensions to optimize for must be given, one number in the range of each
    profile.
    """
    if not any(-1 in shape for shape in shapes.values()):
        return {}
    best = _profiles(section, "opt_dims", text, shapes)
    for name, wanted in profiles.items():
        if len(best[name]) != len(wanted):
            raise UsageError(
                f"[{section}] opt_dims = {text}: has {len(best[name])} profiles for '{name}', and "
                f"dynamic_dims has {len(wanted)}: give as many."
            )
        for one, ranges in zip(best[name], wanted, strict=True):
            for (value, end), (low, high) in zip(one, ranges, strict=True):
                if value != end or not low <= value <= high:
                    raise UsageError(
                        f"[{section}] opt_dims = {text}: expected one number from {low} to {high} "
                        f"for '{name}', as dynamic_dims says."
                    )
    return best


def _check_gears(
    section: str, shapes: Mapping[str, Shape], profiles: Mapping[str, Sequence[Profile]]
) -> None:
    """On Ascend every shape is compiled: not more than 100, and batches of at most 2048."""
    for name, shape in shapes.items():
        if shape[0] == -1 and any(ranges[0][1] > _LARGEST_BATCH for ranges in profiles[name]):
            raise UsageError(
                f"[{section}] dynamic_dims: the first dimension of '{name}' may be at most "
                f"{_LARGEST_BATCH}."
            )
        gears = sum(_combinations(ranges) for ranges in profiles[name])
        if gears > _MOST_GEARS:
            raise UsageError(
                f"[{section}] dynamic_dims: '{name}' has {gears} shapes, expected at most "
                f"{_MOST_GEARS}."
            )


def _combinations(ranges: Profile) -> int:
    product = 1
    for low, high in ranges:
        product *= high - low + 1
    return product


def _malformed(section: str, key: str, text: str, expected: str) -> UsageError:
    return UsageError(f"[{section}] {key} = {text}: expected {expected}.")
