"""MPI collectives: Open MPI or MPICH through mpi4py, on buffers and without pickling.

MPI reduces bool by its logical operations. It lacks float16 and bfloat16: these are widened to
float32, reduced, and rounded once. That is faster than an operation of ours, and as exact. All
members get the same bits, but MPI chooses the order of the sum. NaN in MAX and MIN is up to MPI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import mpi4py
import numpy as np

from ...collective_call import ONE_WAY, REDUCING, Call, Kind, Reduction
from ...errors import CollectiveMismatch, RankmeshError, UsageError
from ...job.rank import Rank
from ..backend import Collectives, Membership
from ..parts import Array, as_bytes, expect_parts, flat, spans
from ..tracking import CarryOut, CollectiveTracker, TrackedCollectives

# The import must not start MPI: that would hold the GIL, and so all threads, until all ranks come.
mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

Error = MPI.Exception
Communicators = dict[tuple[int, ...], MPI.Intracomm]

MPI_CHUNK = 1 << 30
"""Bytes of one MPI call, which counts them in 31 bits."""

_TYPES: dict[np.dtype[Any], MPI.Datatype] = {
    np.dtype("float32"): MPI.FLOAT,
    np.dtype("float64"): MPI.DOUBLE,
    np.dtype("bool"): MPI.C_BOOL,
    np.dtype("complex64"): MPI.C_FLOAT_COMPLEX,
    np.dtype("complex128"): MPI.C_DOUBLE_COMPLEX,
    **{
        np.dtype(f"{kind}{bits}"): getattr(MPI, f"{kind.upper()}{bits}_T")
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
}
_WIDENED = ("float16", "bfloat16")
_REDUCTIONS = {
    Reduction.SUM: MPI.SUM,
    Reduction.MAX: MPI.MAX,
    Reduction.MIN: MPI.MIN,
    Reduction.PROD: MPI.PROD,
}
_LOGICAL = {
    Reduction.SUM: MPI.LOR,
    Reduction.MAX: MPI.LOR,
    Reduction.MIN: MPI.LAND,
    Reduction.PROD: MPI.LAND,
}


def start() -> MPI.Intracomm:
    """Start MPI unless the user's script did; returns a communicator of our own."""
    if MPI.Is_finalized():
        raise UsageError(
            "MPI was finalized before the ranks met: build models before MPI.Finalize()."
        )
    if not MPI.Is_initialized():
        provided = ctypes.c_int()
        ctypes.CDLL(MPI.__file__).MPI_Init_thread(
            None, None, MPI.THREAD_MULTIPLE, ctypes.byref(provided)
        )
        MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)  # which makes mpi4py raise
    return MPI.COMM_WORLD.Dup()


def finish() -> None:
    """Finish MPI; waits until all ranks do."""
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


def exchange(world: MPI.Intracomm, payload: bytes) -> list[bytes]:
    """Give `payload`; return the payloads of all ranks in rank order."""
    lengths = np.empty(world.size, np.int64)
    world.Allgather([np.array([len(payload)], np.int64), MPI.INT64_T], [lengths, MPI.INT64_T])
    ends = [int(end) for end in np.cumsum(lengths)]
    if ends[-1] > MPI_CHUNK:
        raise RankmeshError(
            f"the ranks tell each other {ends[-1]} bytes before they run, more than {MPI_CHUNK}"
        )
    everything = bytearray(ends[-1])
    world.Allgatherv([payload, MPI.BYTE], [everything, lengths.tolist(), None, MPI.BYTE])
    return [bytes(everything[lo:hi]) for lo, hi in zip([0, *ends], ends, strict=False)]


class MpiWorld:
    """The communicators of this process, which all its programs use."""

    def __init__(self, world: MPI.Intracomm) -> None:
        self._world = world
        self._groups: Communicators = {}

    def join(self, membership: Membership) -> Collectives:
        """Join the collectives of a job; all its ranks call this together.

        Each new group of this rank gets a communicator.
        """
        m, world = membership, self._world
        for tag, members in enumerate(sorted(set(m.groups))):
            if world.rank in members and len(members) > 1 and members not in self._groups:
                incl = world.Get_group().Incl(list(members))
                self._groups[members] = world.Create_group(incl, tag)
        tracker = CollectiveTracker(m.arena, m.rank, m.groups, m.pairs, m.local, m.pending)
        return MpiCollectives(m.rank, world, self._groups, tracker)


class MpiCollectives(TrackedCollectives):
    """The collectives of one rank over MPI."""

    name = "mpi"
    failures = (Error,)

    def __init__(
        self, rank: Rank, world: MPI.Intracomm, groups: Communicators, tracker: CollectiveTracker
    ) -> None:
        super().__init__(rank, tracker)
        self._world = world
        self._groups = groups

    def carry_out(self, call: Call) -> CarryOut:
        """See TrackedCollectives.carry_out."""
        if call.kind in ONE_WAY:
            return _OneWay(call, self._world)
        comm = self._groups[call.group.ranks]
        return _Reducing(call, comm) if call.kind in REDUCING else _Moving(call, comm)


class _Reducing:
    """One AllReduce, Reduce or ReduceScatter of a rank's program."""

    def __init__(self, call: Call, comm: MPI.Intracomm) -> None:
        self._call = call
        self._comm = comm
        self._dtype: np.dtype[Any] | None = None
        self._receiving = call.kind is not Kind.REDUCE or comm.rank == call.root

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, out = inputs[0], outputs[0]
        if x.dtype is not self._dtype:
            self._choose(x.dtype)
        if not self._receiving:
            out[...] = 0
        else:
            expect_parts(
                self._call, x, out, self._comm.size if self._call.kind is Kind.REDUCE_SCATTER else 1
            )
        if not self._widened:
            self._reduce(flat(x), flat(out))
            return
        wide = np.empty(out.size, np.float32)
        self._reduce(flat(x).astype(np.float32), wide)
        if self._receiving:
            out[...] = wide.reshape(out.shape)

    def _choose(self, dtype: np.dtype[Any]) -> None:
        """Choose MPI's type and operation for arrays of this type."""
        self._widened = dtype.name in _WIDENED
        found = MPI.FLOAT if self._widened else _TYPES.get(dtype)
        if found is None or (
            dtype.kind == "c" and self._call.reduction in (Reduction.MAX, Reduction.MIN)
        ):
            raise ValueError(f"MPI cannot reduce {dtype} by {self._call.reduction.value}")
        self._type = found
        self._dtype = dtype
        self._operation = (_LOGICAL if dtype.kind == "b" else _REDUCTIONS)[self._call.reduction]

    def _reduce(self, x: Array, out: Array) -> None:
        comm, kind, datatype, operation = self._comm, self._call.kind, self._type, self._operation
        if kind is Kind.REDUCE_SCATTER:
            _refuse_long(self._call, x.nbytes)
            comm.Reduce_scatter_block([x, datatype], [out, datatype], operation)
            return
        in_place = kind is Kind.ALL_REDUCE and np.may_share_memory(x, out)
        for lo, hi in spans(x.size, MPI_CHUNK // x.itemsize):
            source = MPI.IN_PLACE if in_place else [x[lo:hi], datatype]
            if kind is Kind.ALL_REDUCE:
                comm.Allreduce(source, [out[lo:hi], datatype], operation)
            else:
                target = [out[lo:hi], datatype] if self._receiving else None
                comm.Reduce(source, target, operation, self._call.root)


class _Moving:
    """One collective of a rank's program that moves bytes as they are."""

    def __init__(self, call: Call, comm: MPI.Intracomm) -> None:
        self._call = call
        self._comm = comm
        self._move = {
            Kind.ALL_GATHER: self._all_gather,
            Kind.GATHER: self._gather,
            Kind.ALL_TO_ALL: self._all_to_all,
            Kind.BROADCAST: self._broadcast,
            Kind.SCATTER: self._scatter,
        }[call.kind]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._move(inputs, outputs)

    def _all_gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], self._comm.size)
        _refuse_long(self._call, outputs[0].nbytes)
        self._comm.Allgather(_message(inputs[0]), _message(outputs[0]))

    def _gather(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        target, root = None, self._call.root
        if self._comm.rank == root:
            expect_parts(self._call, outputs[0], inputs[0], self._comm.size)
            target = _message(outputs[0])
        else:
            outputs[0][...] = 0
        _refuse_long(self._call, inputs[0].nbytes * self._comm.size)
        self._comm.Gather(_message(inputs[0]), target, root)

    def _all_to_all(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        expect_parts(self._call, outputs[0], inputs[0], 1)
        _refuse_long(self._call, outputs[0].nbytes)
        self._comm.Alltoall(_message(inputs[0]), _message(outputs[0]))

    def _broadcast(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, out in zip(inputs, outputs, strict=True):
            if self._comm.rank == self._call.root and out is not x:
                out[...] = x
            data = as_bytes(out)
            for lo, hi in spans(data.size, MPI_CHUNK):
                self._comm.Bcast([data[lo:hi], MPI.BYTE], self._call.root)

    def _scatter(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        source, root = None, self._call.root
        if self._comm.rank == root:
            expect_parts(self._call, inputs[0], outputs[0], self._comm.size)
            source = _message(inputs[0])
        _refuse_long(self._call, outputs[0].nbytes * self._comm.size)
        self._comm.Scatter(source, _message(outputs[0]), root)


class _OneWay:
    """One Send, Receive or NeighborExchange of a rank's program."""

    def __init__(self, call: Call, world: MPI.Intracomm) -> None:
        self._world = world
        self._tag = call.tag
        self._to = [call.group.ranks[p] for p in call.sends_to]
        self._from = [call.group.ranks[p] for p in call.receives_from]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        world, tag = self._world, self._tag
        parts = [
            (source, part)
            for source, out in zip(self._from, outputs, strict=True)
            for part in _chunks(out)
        ]
        statuses = [MPI.Status() for _ in parts]
        receiving = [world.Irecv([part, MPI.BYTE], source, tag) for source, part in parts]
        sending = [
            world.Isend([part, MPI.BYTE], to, tag)
            for to, x in zip(self._to, inputs, strict=True)
            for part in _chunks(x)
        ]
        MPI.Request.Waitall(receiving, statuses)
        MPI.Request.Waitall(sending)
        for (source, part), status in zip(parts, statuses, strict=True):
            if (count := status.Get_count(MPI.BYTE)) != part.size:
                raise CollectiveMismatch(
                    f"{part.size} bytes were expected from rank {source}, and it sent {count}"
                )


def _message(x: Array) -> list[Any]:
    return [as_bytes(x), MPI.BYTE]


def _chunks(x: Array) -> list[Array]:
    data = as_bytes(x)
    return [data[lo:hi] for lo, hi in spans(data.size, MPI_CHUNK)]


def _refuse_long(call: Call, nbytes: int) -> None:
    if nbytes >= 2 * MPI_CHUNK:
        raise ValueError(
            f"{call.kind.value} of {nbytes} bytes: over MPI it carries less than {2 * MPI_CHUNK}. "
            "Split the tensor, or start the ranks of one host with `rankmesh launch`"
        )
