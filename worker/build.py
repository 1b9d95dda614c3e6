"""What a program is made of: a plan, from the model's file or from the model cache, and how its segments are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..comm.rank import Rank
from .companions import NO_COMPANIONS, Companions
from .executors.base import Executor, Runnable
from .external import NO_MEMORY
from .plan import Plan, Segment
from .stamp import NO_FILES, Files

if TYPE_CHECKING:
    from .cache.build_cache import BuildCache
    from .mindir.crypto import Decryption
    from .pivot import Pivot


class Build(NamedTuple):
    """A plan, the plain text of an encrypted model's weights, and what loads a segment."""

    plan: Plan
    memory: Mapping[str, memoryview]
    load: Callable[[Segment], Runnable]
    kept: bool
    """Whether it came from the model cache."""
    files: Files = NO_FILES
    """What the plan was made from."""


def read_build(path: str, rank: Rank, executor: Executor, shapes: Sequence[tuple[int, ...]] | None,
               decryption: Decryption | None, cache: BuildCache | None,
               companions: Companions = NO_COMPANIONS) -> Build:
    """The build of the model at `path`, where `cache` has it without reading the model.

    `shapes` take the place of those of the model's inputs. Raises ModelError.
    """
    plain = not decryption or decryption.allow_unauthenticated  # only such models may be kept
    kept = cache.find(path, shapes) if cache and plain else None
    if kept:
        return Build(kept.plan, NO_MEMORY, lambda segment: kept.load(segment, executor), True)
    from .cut import make_plan  # with what reads and lowers a model: not needed where the cache has the build
    from .origin import origins

    pivot = _pivot(path, shapes, decryption, companions.folder)
    files = pivot.files
    plan, memory = make_plan(pivot, rank.rank, rank.world_size, companions.groups), pivot.memory
    plan = msgspec.structs.replace(plan, origins=origins(plan, rank.rank, memory))
    return Build(plan, memory, lambda segment: executor.prepare(segment, plan.folder, memory), False, files)


def _pivot(path: str, shapes: Sequence[tuple[int, ...]] | None, decryption: Decryption | None, folder: str) -> Pivot:
    if shapes is None:
        from .pivot import load_pivot

        return load_pivot(path, decryption, folder)
    from .resized import load_resized

    return load_resized(path, shapes, decryption, folder)
