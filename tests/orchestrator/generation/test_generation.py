"""Texts of an orchestrator: those of the references, on one to three ranks, and through deaths."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE

import rankmesh
from rankmesh import Orchestrator
from rankmesh.orchestrator.config.generation_settings import GenerationSettings
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.generation.results import Generation

DATA = Path(__file__).parents[2] / "data" / "decoders"


def references(name: str) -> list[dict[str, list[int]]]:
    return json.loads((DATA / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def llama() -> Iterator[Orchestrator]:
    with Orchestrator(str(DATA / "llama")) as orchestrator:
        yield orchestrator


@pytest.mark.parametrize(
    ("name", "ranks"), [("llama", 1), ("llama", 2), ("qwen2", 2), ("qwen2", 3)]
)
def test_the_tokens_are_those_of_transformers(name: str, ranks: int, tmp_path: Path) -> None:
    """All at once; on several ranks the decoder is sliced first. Each says that it is exact."""
    prompts = [one["prompt"] for one in references(name)]
    model = ModelSettings(str(DATA / name), ranks=ranks, cache=str(tmp_path))
    with Orchestrator(model) as orchestrator:
        found = orchestrator.generate(prompts, max_tokens=48, ignore_eos=True)
        (status,) = orchestrator.status().decoders
    assert [list(one.tokens) for one in found] == [one["tokens"] for one in references(name)]
    assert status.inexact == ""
    assert (status.running, status.waiting, status.generated) == (0, 0, 48 * len(prompts))


def test_pieces_make_up_the_text(llama: Orchestrator) -> None:
    pieces = list(llama.stream("Once upon a time", max_tokens=16, ignore_eos=True, logprobs=2))
    whole = llama.generate("Once upon a time", max_tokens=16, ignore_eos=True)[0]
    assert "".join(piece.text for piece in pieces) == whole.text
    assert tuple(token for piece in pieces for token in piece.tokens) == whole.tokens
    assert [piece.finish_reason for piece in pieces] == [None] * 15 + ["length"]
    first = pieces[0].logprobs[0]
    assert first.token == whole.tokens[0] == next(iter(first.top))
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (14, 16)


def test_what_ends_a_text(llama: Orchestrator) -> None:
    prompt = references("llama")[0]["prompt"]
    tokens = references("llama")[0]["tokens"]
    free = llama.generate(prompt, max_tokens=20, ignore_eos=True)[0]
    ended = llama.generate(prompt, max_tokens=20, stop_tokens=[tokens[5]])[0]
    assert (ended.tokens, ended.finish_reason) == (tuple(tokens[:6]), "stop")
    text = free.text[3:6]
    stopped = llama.generate(prompt, max_tokens=20, stop=[text], ignore_eos=True)[0]
    assert stopped.text == free.text[: free.text.index(text)]
    assert stopped.finish_reason == "stop"
    later = llama.generate(prompt, max_tokens=20, stop_tokens=[tokens[5]], min_tokens=6)[0]
    assert len(later.tokens) > 6


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"prompt": []}, "prompt: got no tokens"),
        ({"prompt": [512]}, "got the token 512, expected ids from 0 to 511"),
        ({"prompt": [5] * 500, "max_tokens": 20}, "got 500 and 20 tokens, expected at most 512"),
        ({"prompt": "a", "colour": 3}, "there is no setting 'colour' of a text"),
        ({"prompt": "a", "model": "other"}, "there is no model 'other'"),
    ],
)
def test_refusals(llama: Orchestrator, call: dict[str, Any], text: str) -> None:
    with pytest.raises(rankmesh.RankmeshError, match=text):
        llama.submit_generation(**call)


def test_predict_names_the_other_call(llama: Orchestrator) -> None:
    with pytest.raises(rankmesh.UsageError, match="generates text: call generate or stream"):
        llama.predict([1])


def test_a_caller_that_leaves_ends_its_text(llama: Orchestrator) -> None:
    stream = llama.stream([5, 6, 7], max_tokens=500, ignore_eos=True)
    next(stream)
    stream.close()
    future = llama.submit_generation([5, 6], max_tokens=500, ignore_eos=True)
    assert future.cancel()
    end = time.monotonic() + PATIENCE
    while llama.status().decoders[0].running and time.monotonic() < end:
        time.sleep(0.01)
    assert llama.status().decoders[0].running == 0
    assert llama.metrics()["llama"]["cancelled"] >= 2


def test_a_timeout_says_how_far_the_text_has_come(llama: Orchestrator) -> None:
    with pytest.raises(rankmesh.DeadlineExceeded, match=r"the text has \d+ of 500 tokens after"):
        llama.generate([1, 2, 3], max_tokens=500, ignore_eos=True, timeout=0.05)


def test_calls_of_an_asyncio_loop(llama: Orchestrator) -> None:
    async def run() -> tuple[list[Generation], list[int]]:
        texts = await llama.generate_async([[5, 6], "hello"], max_tokens=5, ignore_eos=True)
        pieces = [one async for one in llama.stream_async([5, 6], max_tokens=5, ignore_eos=True)]
        return texts, [token for piece in pieces for token in piece.tokens]

    texts, tokens = asyncio.run(run())
    assert len(texts) == 2
    assert list(texts[0].tokens) == tokens


def test_more_texts_than_slots_wait_their_turn() -> None:
    settings = GenerationSettings(max_sequences=2, context=64)
    model = ModelSettings(str(DATA / "llama"), generation=settings, queue_limit=3)
    with Orchestrator(model) as orchestrator:
        futures = [
            orchestrator.submit_generation([one], max_tokens=60, ignore_eos=True) for one in (1, 2)
        ]
        end = time.monotonic() + PATIENCE
        while orchestrator.status().decoders[0].running < 2 and time.monotonic() < end:
            time.sleep(0.005)
        assert orchestrator.status().decoders[0].slots == 2
        orchestrator.drain(PATIENCE)
        assert [len(future.result().tokens) for future in futures] == [60, 60]
        with pytest.raises(rankmesh.Draining):
            orchestrator.generate([1])


def test_prompts_that_wait_for_others_give_the_same_bits(llama: Orchestrator) -> None:
    """Steps have few tokens, so that sequences rest in most of them."""
    prompts = [[(7 * one + at) % 500 for at in range(5 + 6 * one)] for one in range(10)]
    settings = GenerationSettings(max_sequences=10, step_tokens=12, prompt_tokens=17)
    asked: dict[str, Any] = {"max_tokens": 20, "ignore_eos": True, "logprobs": 1}
    with Orchestrator(ModelSettings(str(DATA / "llama"), generation=settings)) as orchestrator:
        together = orchestrator.generate(prompts, **asked)
    assert together == [llama.generate(prompt, **asked)[0] for prompt in prompts]


def test_a_fault_of_the_engine_ends_its_texts(
    llama: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets the error, and the next text is answered."""

    def faulty(*given: object) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr("rankmesh.orchestrator.generation.engine.step_order", faulty)
        with pytest.raises(rankmesh.RankmeshError, match="ValueError: a fault"):
            llama.submit_generation([5, 6], max_tokens=5).result(PATIENCE)
    assert len(llama.generate([5, 6], max_tokens=5, ignore_eos=True)[0].tokens) == 5


SAMPLED = {"temperature": 0.9, "seed": 7, "logprobs": 1}


def asked(orchestrator: Orchestrator, number: int) -> Any:
    """A future text: every other one is sampled."""
    prompt = [(7 * number + at) % 500 for at in range((1, 3, 30, 80)[number % 4])]
    settings: dict[str, Any] = SAMPLED if number % 2 else {}
    return orchestrator.submit_generation(prompt, max_tokens=60, ignore_eos=True, **settings)


def test_texts_are_the_same_bits_after_deaths(tmp_path: Path) -> None:
    """Alone on two ranks; and 24 at once on two replicas, whose ranks are killed meanwhile."""
    model = ModelSettings(
        str(DATA / "llama"), ranks=2, cache=str(tmp_path), restart_budget=50, timeout=None
    )
    with Orchestrator(model) as orchestrator:
        alone = [asked(orchestrator, number).result(PATIENCE) for number in range(24)]
    model = ModelSettings(
        str(DATA / "llama"),
        ranks=2,
        replicas=2,
        cache=str(tmp_path),
        restart_budget=50,
        timeout=None,
    )
    with Orchestrator(model) as orchestrator:
        futures = [asked(orchestrator, number) for number in range(24)]
        for kill in range(3):
            before = orchestrator.status().decoders[0].generated
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and not all(one.done() for one in futures):
                ready = [
                    one for one in orchestrator.status().ranks if one.state == "ready" and one.pid
                ]
                if ready and orchestrator.status().decoders[0].generated > before:
                    os.kill(int(ready[kill % len(ready)].pid or 0), signal.SIGKILL)
                    break
                time.sleep(0.005)
        together = [future.result(PATIENCE) for future in futures]
        assert orchestrator.metrics()["llama"]["restarts"] >= 1
    assert together == alone
