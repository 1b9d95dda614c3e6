"""Sliced models: ask a child process for the shards of a whole model, and hold them while they run.

The child keeps shards that it has made: the next job with the same request finds them.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from ...rank_tables.check import MAX_RANKS
from .. import errors
from ..decoding import guarded
from ..job.names import require_utf8
from ..job.shard import find_shards
from ..limits import require_at_most
from ..text import counted
from .child_answer import run_child

_MODULE = "rankmesh.worker.cache.kept_slices"
_SPEC = re.compile(r"(tensor|pipeline|data)=([1-9]\d{0,3})")
AUTO = "auto"


class SliceRequest(msgspec.Struct, frozen=True):
    """A whole model, and how it is to be sliced.

    `ranks` are in `stages` stages. `folder` is where the shards are kept; "" is the model cache
    `cache`: "off" for none, "" for the usual one. With `may_replicate`, whole replicas are an
    answer too. With `sweep`, the child only removes what a killed one has left.
    """

    model: str
    ranks: int
    stages: int = 1
    folder: str = ""
    cache: str = ""
    may_replicate: bool = False
    sweep: bool = False


class SliceAnswer(msgspec.Struct, frozen=True):
    """The pattern of the shards, and the ranks of one replica; or an error, by its class and text.

    `folder` is to be held while the shards are used. `replicas` is 0 where the shards say nothing
    about it.
    """

    pattern: str = ""
    ranks: int = 1
    replicas: int = 0
    folder: str = ""
    error: str = ""
    text: str = ""


REQUEST_DECODER = guarded(msgspec.json.Decoder(SliceRequest))
_read_answer = guarded(msgspec.json.Decoder(SliceAnswer))


class SlicedModel:
    """The shards of a model; they are not evicted from the model cache until `close`."""

    def __init__(self, answer: SliceAnswer) -> None:
        self.answer = answer
        self.pattern = answer.pattern
        self.ranks = answer.ranks
        self.replicas = answer.replicas
        self._lock = hold(answer.folder) if answer.folder else -1

    def close(self) -> None:
        """Let the model cache evict the shards."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Mesh(NamedTuple):
    """The mesh of ranks that a text such as `tensor=2,pipeline=2,data=3` asks for.

    A pipeline has `stages` stages, each of so many ranks that all have `ranks`. Of all that there
    are `replicas`.
    """

    ranks: int
    stages: int = 1
    replicas: int = 1


def one_replica(text: str, ranks: int | None) -> tuple[int, int]:
    """The ranks and stages of a mesh without replicas, for ranks that serve one caller."""
    if text == AUTO:
        if ranks is None:
            raise errors.UsageError("slice auto needs the number of ranks: --ranks N.")
        return ranks, 1
    mesh = parse_mesh(text, ranks)
    if mesh.replicas > 1:
        raise errors.UsageError(
            f"slice {text}: data={mesh.replicas} makes replicas, which only an Orchestrator has. "
            "Leave it out."
        )
    return mesh.ranks, mesh.stages


def parse_mesh(text: str, ranks: int | None) -> Mesh:
    """The mesh that a text asks for, with `ranks` ranks in a replica; UsageError for another."""
    given: dict[str, int] = {}
    for one in text.split(","):
        match = _SPEC.fullmatch(one.strip())
        if match is None or match[1] in given:
            raise errors.UsageError(
                f"slice {text}: expected tensor=N, pipeline=K, data=R or several of them, such as "
                "tensor=2,pipeline=2, each once; or auto."
            )
        given[match[1]] = int(match[2])
    found = {"tensor": 1, "pipeline": 1, "data": 1} | given
    total = found["tensor"] * found["pipeline"]
    require_at_most(f"slice {text}: ranks", total * found["data"], MAX_RANKS)
    if ranks not in (None, total):
        raise errors.UsageError(
            f"slice {text} makes {counted(total, 'rank')}, and {ranks} are asked for: make them "
            "equal."
        )
    return Mesh(total, found["pipeline"], found["data"])


def slice_in_child(request: SliceRequest) -> SlicedModel:
    """The shards of a model, made by a child process or found; raises its RankmeshError."""
    request = msgspec.structs.replace(request, model=os.path.abspath(_whole(request.model)))
    require_utf8(request.model)
    answer = _asked(request)
    try:
        return SlicedModel(answer)
    except FileNotFoundError:  # evicted by another process just now
        return SlicedModel(_asked(request))


def _whole(model: str) -> str:
    """The file of a whole model, or the folder of one; UsageError for shards."""
    if os.path.isdir(model):
        return model
    shards = find_shards(model)
    if shards.numbered:
        raise errors.UsageError(
            f"{model}: names {counted(shards.count, 'shard')}, which are sliced already. Name a "
            "whole model, or leave slice out."
        )
    return shards.path(0)


def _asked(request: SliceRequest) -> SliceAnswer:
    child = run_child(_MODULE, request)
    try:
        return checked(_read_answer(child.data))
    except msgspec.DecodeError as error:
        run_child(_MODULE, msgspec.structs.replace(request, sweep=True))
        raise errors.ModelError(
            f"{request.model}: the process that slices it {child.told}, before it had an answer. "
            "Nothing of it is left."
        ) from error


def checked(answer: SliceAnswer) -> SliceAnswer:
    """An answer, unless it is an error, which is raised."""
    if answer.error:
        raise errors.error_named(answer.error, answer.text)
    return answer


def hold(folder: str) -> int:
    """A descriptor that keeps a folder of the model cache from eviction while it is open.

    Raises FileNotFoundError where the folder is evicted.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with ExitStack() as unless_held:
        unless_held.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not os.path.samestat(os.fstat(lock), os.stat(folder)):
            raise FileNotFoundError(folder)
        unless_held.pop_all()
    return lock
