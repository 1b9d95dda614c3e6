"""Self-test of a decoder: tells whether a token's logits have the same bits whatever else runs.

Three short sequences run alone, each in one step. Then they run together in steps that mix parts
of prompts with single tokens. All ranks of a group run it, as their collectives are a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...comm.arrays import Array
from ...comm.serving.steps import DecoderStep
from .step_program import StepProgram

_LENGTHS = (9, 1)
"""Tokens of two prompts; a single token has no row before it. The third fills a block of the
attention's rows, and has one row more.
"""

_AFTER = 4
"""Tokens behind each prompt, which come one in a step."""

_CHUNKS = (1, 4, 2, 7)
"""Tokens of the parts in which the prompts come."""

_STRIDE = 7919
"""Between the ids of tokens: a prime, so that they spread over the vocabulary."""


def inexact(program: StepProgram, vocabulary: int) -> str:
    """Why logits depend on what runs beside them; "" where they do not."""
    longest = program.capacity - _AFTER - 1
    lengths = [*_LENGTHS, min(2 * program.memory.head_size + 1, longest)][: program.memory.slots]
    sequences = [
        [(_STRIDE * (at + 5 * slot)) % vocabulary for at in range(length + _AFTER)]
        for slot, length in enumerate(lengths)
    ]
    alone = [_alone(program, tokens) for tokens in sequences]
    for slot, at, logits in _together(program, sequences):
        if not np.array_equal(logits.view(np.uint8), alone[slot][at].view(np.uint8)):
            return (
                f"the logits of token {at} of a sequence have other bits beside other sequences: "
                "the executor's products round by how many rows they get"
            )
    return ""


def _alone(program: StepProgram, tokens: list[int]) -> Array:
    """The logits of all tokens of one sequence, `[tokens, columns]`."""
    wanted = [*range(len(tokens))]
    return program.run(DecoderStep.of([0], [0], [tokens], wanted, 0, 0, ())).copy()


def _together(program: StepProgram, sequences: list[list[int]]) -> Iterator[tuple[int, int, Array]]:
    """The logits of each token that ends a part, with its sequence and its place there."""
    done, parity = [0] * len(sequences), 0
    for turn in range(sum(map(len, sequences))):
        parts = [
            tokens[at : at + _part(turn, slot, len(tokens) - at)]
            for slot, (tokens, at) in enumerate(zip(sequences, done, strict=True))
        ]
        slots = [slot for slot, part in enumerate(parts) if part]
        if not slots:
            return
        new = [parts[slot] for slot in slots]
        wanted = [int(end) - 1 for end in np.cumsum([len(one) for one in new])]
        step = DecoderStep.of(slots, [done[slot] for slot in slots], new, wanted, 0, parity, ())
        logits = program.run(step)
        parity = 1 - parity
        for row, slot in enumerate(slots):
            done[slot] += len(parts[slot])
            yield slot, done[slot] - 1, logits[row]


def _part(turn: int, slot: int, left: int) -> int:
    """How many tokens of a sequence come in a turn: the long prompt in one part."""
    if left <= _AFTER:
        return 1
    return left - _AFTER if slot == len(_LENGTHS) else min(_CHUNKS[turn % 4], left - _AFTER)
