"""Work on a device's queue: on a CPU, which has no graphs, but for one test's stand-in of them."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from changed_weights import other, weights
from mindir_models import file_of, saved
from processes import wait_until
from queued_executor import RecordingQueue
from weights_user import build, predict, update

from rankmesh import Model, Orchestrator, RankFailed, UsageError
from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.rendezvous.rendezvous import SingleRank
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.request_memory.tensor_arena import TensorArena
from rankmesh.comm.serving.weights import StageWeights, WeightTensor
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.device_errors import holders, memory_sentence
from rankmesh.worker.executors.torch.device_queue import TorchQueue
from rankmesh.worker.executors.torch.device_run import MOST_SHAPES, DeviceRun, DeviceRuns
from rankmesh.worker.executors.torch.torch_segment import TorchSegment
from rankmesh.worker.executors.torch.torch_settings import tf32_switches
from rankmesh.worker.partition.plan import CollectiveStep, Plan, Segment, Signature
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.runtime.stretch import Stretch, stretches
from rankmesh.worker.serving.swappable_program import SwappableProgram, require_updatable

F32 = np.float32


class Doubling:
    """Work that doubles its input; what was called, and the revision of its weights."""

    recordable = True

    def __init__(self, error: str = "") -> None:
        self.calls: list[bool] = []
        self.weights = 0
        self._error = error

    def revision(self) -> int:
        return self.weights

    def compute(self, inputs: Sequence[Any], recording: Any = None) -> Sequence[Any]:
        if recording is not None:
            found: Sequence[Any] = recording.capture(lambda: self._doubled(inputs, True))
            return found
        return self._doubled(inputs, False)

    def _doubled(self, inputs: Sequence[Any], recording: bool) -> Sequence[Any]:
        self.calls.append(recording)
        if self._error and recording:
            raise RuntimeError(self._error)
        return [inputs[0] * 2 + self.weights]

    def recorded(self) -> None:
        pass

    def following(self, recorded: Any) -> Any:
        return nullcontext(None)


def _run(work: Doubling, queue: type[TorchQueue] = RecordingQueue) -> Callable[..., Any]:
    made = DeviceRun(queue(torch.device("cpu")), work, "the part up to y")
    return lambda x: made.run([np.asarray(x, F32)], [None])[0].tolist()


def test_the_second_run_of_a_shape_is_captured_and_later_ones_replayed() -> None:
    work = Doubling()
    run = _run(work)
    assert [run([one]) for one in (1, 2, 3, 4)] == [[2], [4], [6], [8]]
    assert work.calls == [False, True, True, True, True]  # the stand-in computes in each replay
    assert run([1, 2]) == [2, 4]
    assert work.calls[-1] is False


def test_new_weights_are_captured_anew() -> None:
    work = Doubling()
    run = _run(work)
    assert [run([1]), run([1])] == [[2], [2]]
    work.weights = 5
    assert [run([1]), run([2]), run([3])] == [[7], [9], [11]]
    work.weights = 0
    assert run([4]) == [8]


def test_work_that_cannot_be_captured_runs_call_by_call_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Doubling("operation not permitted when stream is capturing\nmore")
    run = _run(work)
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        assert [run([one]) for one in (1, 2, 3)] == [[2], [4], [6]]
    assert work.calls == [False, True, False, False]
    assert [one.getMessage() for one in caplog.records] == [
        "the part up to y: it cannot be captured as a graph (operation not permitted when stream "
        "is capturing), and runs call by call."
    ]


def test_only_so_many_shapes_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    work = Doubling()
    run = _run(work)
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        for size in range(MOST_SHAPES + 3):
            for _ in range(3):
                assert run([1] * size) == [2] * size
    assert len(caplog.records) == 1
    assert work.calls[-9:] == [False] * 9


def test_a_cpu_has_no_graphs() -> None:
    work = Doubling()
    run = _run(work, TorchQueue)
    assert [run([one]) for one in (1, 2, 3)] == [[2], [4], [6]]
    assert not any(work.calls)


def test_products_are_in_tf32_where_that_is_asked_for_and_while_work_starts_alone() -> None:
    owner, name, *values = tf32_switches()[0]

    class Seen(Doubling):
        def compute(self, inputs: Sequence[Any], recording: Any = None) -> Sequence[Any]:
            self.calls.append(getattr(owner, name))
            return inputs

    before = getattr(owner, name)
    for tf32 in (False, True):
        work = Seen()
        made = DeviceRun(TorchQueue(torch.device("cpu"), tf32), work, "the part up to y")
        made.run([np.ones(1, F32)], [None])
        assert work.calls == [values[tf32]]
        assert getattr(owner, name) == before


def test_an_error_names_the_part() -> None:
    class Failing(Doubling):
        def compute(self, inputs: Sequence[Any], recording: Any = None) -> Sequence[Any]:
            raise RuntimeError("CUDA error: an illegal memory access")

    with pytest.raises(RankFailed, match="torch failed in the part up to y: CUDA error"):
        _run(Failing())([1])


@pytest.fixture
def on_queues(monkeypatch: pytest.MonkeyPatch) -> list[TorchSegment]:
    """Every model of the torch executor runs on queues of the CPU; the segments that computed."""
    monkeypatch.setenv("RANKMESH_EXECUTOR", "torch")
    runs = DeviceRuns(RecordingQueue(torch.device("cpu")))
    monkeypatch.setattr(TorchExecutor, "queue", lambda self: runs)
    computed: list[TorchSegment] = []
    compute = TorchSegment.compute

    def noted(self: TorchSegment, inputs: Any) -> Any:
        computed.append(self)
        return compute(self, inputs)

    monkeypatch.setattr(TorchSegment, "compute", noted)
    return computed


@pytest.mark.parametrize("network", ["lstm", "fp16_mlp", "cf_while", "int_bool_io", "bf16_params"])
def test_a_network_on_a_queue_computes_what_mindspore_computed(
    network: str, on_queues: list[TorchSegment]
) -> None:
    inputs, references = saved(network)
    made: list[Model] = []
    build(made, file_of(network), None)
    for _ in range(3):
        for got, reference in zip(predict(made, inputs), references, strict=True):
            assert (got.dtype, got.shape) == (reference.dtype, reference.shape)
            limit = {"float32": 1e-5, "bfloat16": 2e-2}.get(got.dtype.name, 2e-3)
            np.testing.assert_allclose(
                got.astype(np.float64), reference.astype(np.float64), limit, limit
            )
    assert on_queues


def test_updated_weights_take_the_place_of_those_before(
    on_queues: list[TorchSegment], tmp_path: Path
) -> None:
    """In the same memory: what was captured computes with them."""
    inputs, _ = saved("mlp")
    made: list[Model] = []
    build(made, file_of("mlp"), {"ascend_context": {"shareable_weight_pid_list": "0"}})
    before = [predict(made, inputs)[0] for _ in range(3)]
    new = other(weights(file_of("mlp")))
    update(made, new)
    after = [predict(made, inputs)[0] for _ in range(3)]
    assert (before[0] == before[2]).all() and (after[0] == after[2]).all()
    assert (before[0] != after[0]).any()
    made[0].rollback()
    np.testing.assert_array_equal(predict(made, inputs)[0], before[0])


def _plan(steps: Sequence[Any], outputs: Sequence[str]) -> Plan:
    signatures = tuple(Signature(name, name, None) for name in outputs)  # type: ignore[arg-type]
    return Plan("m", "/", (), signatures, tuple(steps), {}, {})


def _segment(inputs: str, outputs: str) -> Segment:
    return Segment(None, tuple(inputs.split()), tuple(outputs.split()))  # type: ignore[arg-type]


def _collective(kind: Kind, source: str, result: str) -> CollectiveStep:
    return CollectiveStep(Call(kind=kind, group=RankGroup("world", (0, 1))), (source,), (result,))


@pytest.mark.pure
def test_steps_of_the_device_are_one_stretch() -> None:
    plan = _plan(
        [
            _segment("x", "a kept"),
            _collective(Kind.ALL_REDUCE, "a", "b"),
            _segment("b x", "c"),
            _collective(Kind.SEND, "c", "d"),
            _segment("d kept", "y"),
            _collective(Kind.ALL_REDUCE, "y", "z"),
        ],
        ["z"],
    )
    first, send, last = stretches(plan, lambda step: step.call.kind is Kind.ALL_REDUCE)
    assert isinstance(first, Stretch) and isinstance(last, Stretch)
    assert (first.inputs, first.outputs, first.inside) == (("x",), ("kept", "c"), {"a", "b"})
    assert send is plan.steps[3]
    assert (last.inputs, last.outputs, last.inside) == (("d", "kept"), ("z",), {"y"})


@pytest.mark.pure
def test_a_stage_of_a_pipeline_receives_and_sends_within_its_stretch() -> None:
    steps = [
        _collective(Kind.RECEIVE, "", "a"),
        _segment("a x", "b"),
        CollectiveStep(Call(kind=Kind.SEND, group=RankGroup("world", (0, 1))), ("b",), ()),
    ]
    (stage,) = stretches(_plan(steps, []), lambda step: True)
    assert isinstance(stage, Stretch)
    assert (stage.inputs, stage.outputs, stage.inside) == (("", "x"), (), {"a", "b"})


@pytest.mark.pure
def test_collectives_alone_stay_on_the_host() -> None:
    plan = _plan([_collective(Kind.ALL_REDUCE, "x", "y")], ["y"])
    assert stretches(plan, lambda step: True) == list(plan.steps)


_TEXT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 512.00 MiB is free. Process 4194305 has 70.20 GiB memory in use. Including non-PyTorch "
    "memory, this process has 8.31 GiB memory in use."
)


@pytest.mark.pure
def test_a_device_without_memory_is_a_sentence() -> None:
    assert holders(_TEXT) == ["process 4194305 has 70.20 GiB"]
    said = memory_sentence("net.onnx", "cuda:0", "2.00 GiB", 1 << 29, 79 << 30, holders(_TEXT))
    assert said == (
        "net.onnx: cuda:0 has no memory left: 2.00 GiB more are needed, and 0.50 of 79.00 GiB are "
        "free; process 4194305 has 70.20 GiB. End other processes there, or use smaller shapes, "
        "fewer replicas or another GPU."
    )


def test_a_ranks_updated_weights_take_the_memory_of_those_before(
    on_queues: list[TorchSegment],
) -> None:
    """As an orchestrator updates those of a rank on a GPU: from its arena, between two requests."""
    arena = OwnedArena(1 << 24, 1 << 24)
    spec = ProgramSpec(file_of("mlp"), ExecutorSettings(name="torch"))
    rank = SingleRank(Rank(0, 1, 0, 1, "host", 0))
    model = SwappableProgram.open(spec, rank, TensorArena(os.dup(arena.fd)), None)
    inputs = dict(zip((one.name for one in model.report.inputs), saved("mlp")[0], strict=True))
    before = [next(iter(model.borrow(inputs).values())).copy() for _ in range(3)]
    regions, answers = [], []
    for number in (1, 2):
        staged = []
        for name, array in other(weights(file_of("mlp"))).items():
            regions.append(arena.allocate(array.nbytes))
            np.copyto(regions[-1].array(0, array.dtype, array.shape), array * number)
            place = regions[-1].offset
            staged.append(WeightTensor(name, array.dtype.name, array.shape, place, number))
        model.reply(StageWeights(number, number, staged))
        model.switch(number)
        answers.append([next(iter(model.borrow(inputs).values())).copy() for _ in range(3)])
    for same in (before, *answers):
        np.testing.assert_array_equal(same[0], same[2])
    assert (before[0] != answers[0][0]).any() and (answers[0][0] != answers[1][0]).any()
    assert len({id(segment) for segment in on_queues}) == 2  # the file's, and that of all updates
    arena.close()


@pytest.mark.pure
def test_weights_that_onnxruntime_has_on_a_gpu_are_not_updated() -> None:
    require_updatable(ExecutorSettings("gpu", name="torch"))
    with pytest.raises(UsageError, match="on NVIDIA GPUs by the torch executor only"):
        require_updatable(ExecutorSettings("gpu", name="onnxruntime"))


@pytest.fixture(scope="module")
def queued_notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Ranks that orchestrators start compute with the executor of queued_executor.py; its notes."""
    tmp_path = tmp_path_factory.mktemp("queued")
    package = tmp_path / "queued_executor-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: queued-executor\n")
    (package / "entry_points.txt").write_text(
        "[rankmesh.executors]\nqueued = queued_executor:open_executor\n"
    )
    support = Path(__file__).parents[3] / "support"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", f"{tmp_path}:{support}")
        environment.setenv("RANKMESH_EXECUTOR", "queued")
        environment.setenv("QUEUED_NOTES", str(tmp_path / "notes"))
        yield tmp_path / "notes"


@pytest.fixture(scope="module")
def stages(queued_notes: Path) -> Iterator[Orchestrator]:
    """A pipeline of two ranks."""
    shards = Path(file_of("dist_pipeline_2")).parent / "dist_pipeline_2_rank{rank}.mindir"
    with Orchestrator(str(shards), device="cpu") as orchestrator:
        yield orchestrator


def test_stages_of_an_orchestrator_hand_tensors_over_on_their_device(
    queued_notes: Path, stages: Orchestrator
) -> None:
    """Graphs are captured around what is handed over."""
    (x,), (y,) = saved("dist_pipeline_2")
    for _ in range(4):
        (got,) = stages.predict(x).values()
        np.testing.assert_allclose(got, y, 1e-5, 1e-5)
    carried = {rank.collectives for rank in stages.status().ranks}
    assert carried == {"shared_memory (all ranks are on this host)"}
    notes = queued_notes.read_text().split("\n")
    assert notes.count("graph") == 2
    assert notes.count(f"{x.nbytes} bytes") >= 4


@pytest.mark.parametrize("doing", ["putting", "taking"])
def test_a_rank_killed_in_the_middle_of_a_hand_over_loses_no_request(
    doing: str, queued_notes: Path, stages: Orchestrator
) -> None:
    """All ranks start again, and none of the device's memory is mapped a second time."""
    (x,), (y,) = saved("dist_pipeline_2")
    gc.collect()  # what other tests left open
    before, mapped, opened = _pids(stages), _mapped(stages), len(os.listdir("/proc/self/fd"))
    held = Path(f"{queued_notes}.{doing}")
    held.touch()
    future = stages.submit(x)
    wait_until(lambda: f"\n{doing} " in queued_notes.read_text(), "the hand-over")
    victim = int(queued_notes.read_text().rpartition(f"\n{doing} ")[2].split()[0])
    os.kill(victim, signal.SIGKILL)
    held.unlink()
    (got,) = future.result(60).values()
    np.testing.assert_allclose(got, y, 1e-5, 1e-5)
    assert victim in before and not set(before) & set(_pids(stages))
    wait_until(lambda: not any(map(os.path.exists, map("/proc/{}".format, before))), "the end")
    assert _mapped(stages) == mapped
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= opened, "the descriptors' end")


def _pids(stages: Orchestrator) -> list[int]:
    return [rank.pid for rank in stages.status().ranks if rank.pid]


def _mapped(stages: Orchestrator) -> list[int]:
    """How often each rank has memory of the device mapped."""
    return [Path(f"/proc/{pid}/maps").read_text().count("memfd:device") for pid in _pids(stages)]


def test_ranks_with_a_device_each_use_its_collectives_unasked(queued_notes: Path) -> None:
    """They run on its tensors: a request's values come to the host at its end alone."""
    (x,), (y,) = saved("dist_tp_mlp_2")
    shards = str(Path(file_of("dist_tp_mlp_2")).parent / "dist_tp_mlp_2_rank{rank}.mindir")
    with Orchestrator(shards, device="cpu") as ranks:
        before = queued_notes.read_text().count("results on the host")
        for _ in range(3):
            (got,) = ranks.predict(x).values()
            np.testing.assert_allclose(got, y, 1e-5, 1e-5)
        carried = {rank.collectives for rank in ranks.status().ranks}
        visits = queued_notes.read_text().count("results on the host") - before
    assert carried == {"gloo (each rank keeps its results on a device of its own)"}
    assert visits == 2 * 3
