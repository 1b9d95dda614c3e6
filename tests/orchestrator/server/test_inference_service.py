"""The service behind every protocol: answers, conventions, refusals and cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_models import doubler, grower

import rankmesh
from rankmesh.orchestrator.server.faults import UnknownModel
from rankmesh.orchestrator.server.health import ModelHealth
from rankmesh.orchestrator.server.inference import InferenceRequest, InferenceService

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.zeros(1, np.float32)


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rankmesh.Orchestrator]:
    folder = tmp_path_factory.mktemp("models")
    settings = folder / "serve.yaml"
    paths = [doubler(folder), grower(folder)]
    settings.write_text("models:\n" + "".join(f"  - path: {path}\n" for path in paths))
    with rankmesh.Orchestrator(config=str(settings)) as made:
        yield made


def request(service: InferenceService, **options: object) -> InferenceRequest:
    model = service.catalog.find("doubler")
    return InferenceRequest(model, {"x": X, "bias": BIAS}, **options)  # type: ignore[arg-type]


def test_many_requests_of_one_loop_are_answered_each_with_its_own(
    orchestrator: rankmesh.Orchestrator,
) -> None:
    async def ask() -> None:
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        model = service.catalog.find("doubler", "1")
        given = [InferenceRequest(model, {"x": X * n, "bias": BIAS}, str(n)) for n in range(50)]
        for n, answer in enumerate(await asyncio.gather(*map(service.infer, given))):
            assert (answer.model, answer.id, list(answer.outputs)) == (model, str(n), ["y", "s"])
            np.testing.assert_array_equal(answer.outputs["y"], 2 * n * X)
        wanted = await service.infer(request(service, outputs=["s"]))
        assert list(wanted.outputs) == ["s"]

    asyncio.run(ask())


def test_inputs_may_be_written_where_the_ranks_read(orchestrator: rankmesh.Orchestrator) -> None:
    async def ask() -> None:
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        model = service.catalog.find("doubler")
        buffers = await service.buffers(model, {"x": (2, 4)})
        buffers["x"][...] = X
        buffers["bias"][...] = 5
        answer = await service.infer(InferenceRequest(model, buffers))
        np.testing.assert_array_equal(answer.outputs["y"], 2 * X + 5)

    asyncio.run(ask())


def test_models_are_described_by_the_protocols_words(orchestrator: rankmesh.Orchestrator) -> None:
    async def look() -> None:
        catalog = InferenceService(orchestrator, asyncio.get_running_loop()).catalog
        model = catalog.find("doubler")
        assert [(one.name, one.datatype, one.shape) for one in model.inputs.values()] == [
            ("x", "FP32", (-1, 4)),
            ("bias", "FP32", (1,)),
        ]
        assert catalog.find("grower").input("n").datatype == "INT64"
        with pytest.raises(UnknownModel, match="no model 'bert': there are doubler, grower"):
            catalog.find("bert")
        with pytest.raises(UnknownModel, match="no version '7', but 1"):
            catalog.find("doubler", "7")

    asyncio.run(look())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"outputs": ["z"]}, r"doubler: has no output 'z', but \['y', 's'\]"),
        ({"outputs": ["y", "y"]}, "expected each once"),
        ({"priority": -1}, "1 is the highest"),
        ({"timeout": "soon"}, "microseconds"),
    ],
)
def test_wrong_requests_are_refused(
    orchestrator: rankmesh.Orchestrator, options: dict[str, object], text: str
) -> None:
    async def ask() -> None:
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        with pytest.raises(rankmesh.InputError, match=text):
            await service.infer(request(service, **options))

    asyncio.run(ask())


def test_a_stopped_rank_shows_a_request_times_out_and_one_that_is_cancelled_is_counted(
    orchestrator: rankmesh.Orchestrator,
) -> None:
    health = ModelHealth(orchestrator)
    assert health.all_ready()
    (rank,) = [rank for rank in orchestrator.status().ranks if rank.model == "doubler"]
    assert rank.pid is not None
    before = orchestrator.metrics()["doubler"]["cancelled"]

    async def ask() -> None:
        service = InferenceService(orchestrator, asyncio.get_running_loop())
        with pytest.raises(rankmesh.DeadlineExceeded):
            await service.infer(request(service, timeout=50_000))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(service.infer(request(service)), 0.05)

    os.kill(rank.pid, signal.SIGSTOP)
    try:
        stopped = time.monotonic()
        wait_until(lambda: not health.ready("doubler"), "the health to tell")
        assert time.monotonic() - stopped < 25 and health.ready("grower")  # a hang is 30 s
        assert not health.all_ready()
        asyncio.run(ask())
    finally:
        os.kill(rank.pid, signal.SIGCONT)
    wait_until(health.all_ready, "the rank to answer again")
    wait_until(
        lambda: orchestrator.metrics()["doubler"]["cancelled"] == before + 1, "the request to count"
    )
    assert orchestrator.predict(X, BIAS, model="doubler", timeout=PATIENCE)["y"][0, 1] == 2
