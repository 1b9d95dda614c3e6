"""Steps of a decoder in one process: the reference's tokens, and the same bits in any company."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from rankmesh.comm.errors import OutOfMemory
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.rendezvous import SingleRank
from rankmesh.comm.serving.steps import DecoderJob, DecoderStep
from rankmesh.worker.decoding import step_arrays
from rankmesh.worker.decoding.self_test import inexact
from rankmesh.worker.decoding.step_program import StepProgram
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program_spec import ProgramSpec

DATA = Path(__file__).parents[2] / "data" / "decoders"
_SIZE = 32 << 20


def opened(folder: Path, size: int = _SIZE) -> StepProgram:
    """A decoder of one rank with 8 slots."""
    config = str(folder / "genai_config.json")
    file = os.memfd_create("keys and values")
    os.ftruncate(file, size)
    rank = SingleRank(Rank(0, 1, 0, 1, "host", 0))
    program = open_program(ProgramSpec(config, ExecutorSettings("cpu", 0, 1)), rank)
    try:
        return StepProgram(program, DecoderJob(config, 8, 0, 300, file, size), 0, 128)
    finally:
        os.close(file)


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def program(name: str) -> Iterator[StepProgram]:
    yield opened(DATA / name)


class Player:
    """Runs steps of whatever sequences it is given."""

    def __init__(self, program: StepProgram) -> None:
        self._program, self._parity = program, 0

    def step(self, rows: dict[int, tuple[int, list[int]]]) -> dict[int, np.ndarray]:
        """The logits behind the last new token of each slot; by slot, the tokens before and new."""
        slots = sorted(rows)
        tokens = [rows[slot][1] for slot in slots]
        ends = np.cumsum([len(one) for one in tokens]).tolist()
        last = {slot: end - 1 for slot, end in zip(slots, ends, strict=True) if rows[slot][1]}
        lengths = [rows[slot][0] for slot in slots]
        step = DecoderStep.of(slots, lengths, tokens, [*last.values()], 0, self._parity, ())
        self._parity = 1 - self._parity
        logits = self._program.run(step)
        return {slot: logits[at].copy() for at, slot in enumerate(last)}

    def alone(self, prompt: list[int], count: int) -> tuple[list[int], list[np.ndarray]]:
        """The best tokens behind a prompt, and their logits."""
        known, found, logits = 0, list[int](), list[np.ndarray]()
        new = prompt
        while len(found) < count:
            logits.append(self.step({0: (known, new)})[0])
            known += len(new)
            found.append(int(logits[-1].argmax()))
            new = [found[-1]]
        return found, logits


def references(name: str) -> list[dict[str, list[int]]]:
    return json.loads((DATA / f"{name}.json").read_text())


def test_the_tokens_are_those_of_transformers(program: StepProgram, name: str) -> None:
    for one in references(name):
        found, _ = Player(program).alone(one["prompt"], len(one["tokens"]))
        assert found == one["tokens"]


@pytest.mark.parametrize("seed", range(3))
def test_logits_have_the_same_bits_beside_other_sequences(
    program: StepProgram, name: str, seed: int
) -> None:
    """Sequences begin at different moments, in other slots; their prompts come in parts, and each
    rests in some steps.
    """
    random = np.random.default_rng(seed)
    prompts = [one["prompt"] for one in references(name)]
    alone = [Player(program).alone(prompt, 20) for prompt in prompts]
    player, slots = Player(program), random.permutation(8)[: len(prompts)].tolist()
    starts = random.integers(0, 6, len(prompts))
    todo = [list(prompt) for prompt in prompts]
    known, made = [0] * len(prompts), [0] * len(prompts)
    for turn in range(200):
        rows = {}
        for at, slot in enumerate(slots):
            if turn >= starts[at] and made[at] < 20:
                rows[slot] = (known[at], todo[at][: int(random.choice([0, 1, 2, 3, 9]))])
        if not rows and turn > max(starts):
            break
        logits = player.step(rows) if any(new for _, new in rows.values()) else {}
        for slot, found in logits.items():
            at = slots.index(slot)
            known[at] += len(rows[slot][1])
            todo[at] = todo[at][len(rows[slot][1]) :]
            if not todo[at]:
                assert found.tobytes() == alone[at][1][made[at]].tobytes()
                todo[at] = [int(found.argmax())]
                made[at] += 1
    assert made == [20] * len(prompts)


def test_parts_of_every_length_have_the_same_bits(program: StepProgram) -> None:
    """Blocks of the attention have 32 rows here: a part of 33 has a last block of one row."""
    player, tokens = Player(program), [(7 * at) % 500 for at in range(70)]
    alone = [player.step({0: (at, [token])})[0].tobytes() for at, token in enumerate(tokens)]
    for count in range(1, 70):
        found = player.step({0: (0, tokens[:count]), 2: (0, tokens[:3])})
        assert found[0].tobytes() == alone[count - 1], count
        after = player.step({0: (count, tokens[count:])})
        assert after[0].tobytes() == alone[-1], count


def test_a_full_sequence_beside_a_long_prompt(program: StepProgram) -> None:
    """Attention wants room for a query's padding: up to the rows of the longest one."""
    player, tokens = Player(program), [(7 * at) % 500 for at in range(128)]
    alone = player.step({0: (0, tokens)})[0].tobytes()
    player.step({0: (0, tokens[:-1])})
    assert player.step({0: (127, tokens[-1:]), 1: (0, tokens)})[0].tobytes() == alone


def test_this_host_is_exact(program: StepProgram) -> None:
    assert inexact(program, 512) == ""


@pytest.mark.parametrize("rows", [1, 33])
def test_the_self_test_finds_queries_with_a_block_of_one_row(
    program: StepProgram, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    beside = step_arrays.StepNumbers.beside.fget

    def alone(numbers: step_arrays.StepNumbers) -> np.ndarray:
        return np.where(numbers.counts == rows, 0, beside(numbers)).astype(np.int32)

    monkeypatch.setattr(step_arrays.StepNumbers, "beside", property(alone))
    assert "have other bits" in inexact(program, 512)


def test_memory_for_no_sequence_is_refused() -> None:
    with pytest.raises(OutOfMemory, match=r"a sequence needs \d+ bytes .* give more memory"):
        opened(DATA / "llama", 64 << 10)


def test_fewer_slots_where_memory_is_short() -> None:
    program = opened(DATA / "llama", 512 << 10)
    assert 1 <= program.memory.slots < 8


def quantised(folder: Path, target: Path, level: int) -> Path:
    """The decoder with its products in 4 bits, blocks of 32, by onnxruntime's own quantiser."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    shutil.copytree(folder, target)
    model = onnx.load(target / "model.onnx")
    made = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True, accuracy_level=level)
    made.process()
    (target / "model.onnx").unlink()
    (target / "model.onnx.data").unlink()
    onnx.save(made.model.model, target / "model.onnx")
    return target


def test_four_bits_are_exact_at_accuracy_level_4_only(tmp_path: Path) -> None:
    """At level 0 products round by how many rows they get, and the self-test finds it."""
    exact = opened(quantised(DATA / "llama", tmp_path / "four", 4))
    assert inexact(exact, 512) == ""
    other = opened(quantised(DATA / "llama", tmp_path / "zero", 0))
    assert "round by how many rows they get" in inexact(other, 512)
