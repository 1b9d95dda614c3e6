"""AllReduce kernels in Triton: each rank reads the memory of all, and writes only its own.

A block of threads has a span of the message, and meets the same block of the other ranks by flags.
Its flag is the number of its latest turn. In the memory of each rank: a flag for each block and
each of two meetings, then two rooms of messages and two of results, which alternate. A block that
has met the others in turn n knows that they have read the room of turn n - 1, and takes it for
turn n + 1.

The scheme is that of the custom AllReduce of vLLM and TensorRT-LLM (one-shot, two-shot), but that
nothing is written to another GPU: its memory may be mapped for reading.
"""

# mypy: ignore-errors
from __future__ import annotations

import os

import triton
import triton.language as tl

SPAN_BYTES = 4096
"""Of a block's span, whatever the dtype: no other block ever uses its part of a room."""
MOST_BYTES = 1 << 20
"""Of a message."""
MOST_BLOCKS = MOST_BYTES // SPAN_BYTES
FLAG_BYTES = 2 * 4 * MOST_BLOCKS
MEMORY_BYTES = FLAG_BYTES + 4 * MOST_BYTES
"""Of each rank: flags, two rooms of messages, two of results."""
SUM, MAX, MIN, PROD = range(4)
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run on the CPU, statement by statement (TRITON_INTERPRET=1)."""
_ROOM = tl.constexpr(MOST_BYTES)
_SPAN = tl.constexpr(SPAN_BYTES)
_FLAGS = tl.constexpr(FLAG_BYTES)
_BLOCKS = tl.constexpr(MOST_BLOCKS)
_WITHOUT_PTX = tl.constexpr(INTERPRETED)


@triton.jit
def _flag(address):
    """The flag at an address of any rank's memory; later reads see what was written before it."""
    if _WITHOUT_PTX:
        return tl.load(address.to(tl.pointer_type(tl.int32)), volatile=True)
    return tl.inline_asm_elementwise(
        "ld.acquire.sys.global.s32 $0, [$1];", "=r,l", [address], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _meet(mine, table, block, meeting: tl.constexpr, turn, n: tl.constexpr):
    """Note that this block has come to a meeting of a turn, and wait for those of all ranks."""
    at = (meeting * _BLOCKS + block) * 4
    tl.debug_barrier()
    tl.atomic_xchg((mine + at).to(tl.pointer_type(tl.int32)), turn, sem="release", scope="sys")
    for rank in tl.static_range(n):
        address = tl.load(table + rank) + at
        while _flag(address) < turn:
            pass
    tl.debug_barrier()


@triton.jit
def _combined(x, y, operation: tl.constexpr):
    if operation == 0:
        return x + y
    if operation == 1:
        return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    if operation == 2:
        return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    return x * y


@triton.jit
def _from_all(
    table,
    room,
    at,
    inside,
    wide: tl.constexpr,
    kind: tl.constexpr,
    operation: tl.constexpr,
    n: tl.constexpr,
):
    """The elements `at` of all ranks' rooms, combined in the order of positions."""
    for rank in tl.static_range(n):
        source = (tl.load(table + rank) + room).to(tl.pointer_type(kind))
        part = tl.load(source + at, mask=inside, other=0, volatile=True).to(wide)
        found = part if rank == 0 else _combined(found, part, operation)  # noqa: F821
    return found.to(kind)


@triton.jit
def one_shot(
    x,
    out,
    mine,
    table,
    size,
    wide: tl.constexpr,
    operation: tl.constexpr,
    n: tl.constexpr,
    width: tl.constexpr,
):
    """Every rank reads all messages whole.

    `table` has the address of each rank's memory, `mine` is this rank's. A block has `width`
    elements, which are combined in the dtype `wide`.
    """
    block = tl.program_id(0)
    kind: tl.constexpr = x.dtype.element_ty
    turn = tl.load((mine + block * 4).to(tl.pointer_type(tl.int32))) + 1
    room = _FLAGS + (turn % 2).to(tl.int64) * _ROOM + block * _SPAN
    at = tl.arange(0, width)
    span = block * width + at
    own = (mine + room).to(tl.pointer_type(kind))
    tl.store(own + at, tl.load(x + span, mask=span < size), mask=span < size)
    _meet(mine, table, block, 0, turn, n)
    made = _from_all(table, room, at, span < size, wide, kind, operation, n)
    tl.store(out + span, made, mask=span < size)


@triton.jit
def two_shot(
    x,
    out,
    mine,
    table,
    size,
    position,
    wide: tl.constexpr,
    operation: tl.constexpr,
    n: tl.constexpr,
    width: tl.constexpr,
):
    """Every rank combines its part of each span, and reads the other parts from those that did.

    Its parameters are those of `one_shot`, and the rank's `position`. `n` is a power of two.
    """
    block = tl.program_id(0)
    kind: tl.constexpr = x.dtype.element_ty
    part: tl.constexpr = width // n
    turn = tl.load((mine + block * 4).to(tl.pointer_type(tl.int32))) + 1
    room = _FLAGS + (turn % 2).to(tl.int64) * _ROOM + block * _SPAN
    results = room + 2 * _ROOM
    at = tl.arange(0, width)
    span = block * width + at
    own = (mine + room).to(tl.pointer_type(kind))
    tl.store(own + at, tl.load(x + span, mask=span < size), mask=span < size)
    _meet(mine, table, block, 0, turn, n)
    at = position * part + tl.arange(0, part)
    span = block * width + at
    made = _from_all(table, room, at, span < size, wide, kind, operation, n)
    tl.store((mine + results).to(tl.pointer_type(kind)) + at, made, mask=span < size)
    _meet(mine, table, block, 1, turn, n)
    for rank in tl.static_range(n):
        at = rank * part + tl.arange(0, part)
        span = block * width + at
        source = (tl.load(table + rank) + results).to(tl.pointer_type(kind))
        found = tl.load(source + at, mask=span < size, volatile=True)
        tl.store(out + span, found, mask=span < size)
