"""Which device takes the place of one that is missing."""

from __future__ import annotations

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.resources import gpu_count
from rankmesh.comm.job.rank import Rank
from rankmesh.worker.api_types.context import Context
from rankmesh.worker.session.hardware import device_id, device_of_targets

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RANKMESH_DEVICE", raising=False)


@pytest.mark.parametrize("targets", [["cpu"], ["CPU"], ["gpu", "cpu"], ["cpu", "gpu"]])
def test_a_device_that_is_there_needs_no_warning(
    targets: list[str], caplog: pytest.LogCaptureFixture
):
    assert device_of_targets(targets) == "cpu"
    assert not caplog.records


def test_the_variable_decides_and_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert device_of_targets(["gpu"]) == "cpu"
    monkeypatch.setenv("RANKMESH_DEVICE", "GPU")
    assert device_of_targets(["ascend"]) == "gpu"
    monkeypatch.setenv("RANKMESH_DEVICE", "tpu")
    with pytest.raises(UsageError, match="RANKMESH_DEVICE=tpu: expected one of cpu, gpu, ascend"):
        device_of_targets(["ascend"])


@pytest.mark.parametrize("visible", ["", "-1", "-1,0"])
def test_hidden_gpus_do_not_count(visible: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == 0


@pytest.mark.parametrize(
    "wanted, rank, gpus, expected",
    [
        (3, Rank(3, 4, 3, 4, "one host", 3), 4, 3),
        (5, Rank(5, 8, 1, 4, "the second host", 1), 4, 1),
        (3, Rank(3, 4, 3, 4, "--oversubscribe", 3), 2, 1),
        (2, Rank(5, 8, 1, 4, "a choice of the script's", 1), 4, 2),
        (1, Rank(0, 1, 0, 1, "alone", 0), 4, 1),
    ],
)
def test_gpu_of_the_ranks_own_number_is_the_local_ranks(
    wanted: int, rank: Rank, gpus: int, expected: int
):
    context = Context()
    context.target = ["gpu"]
    context.gpu.device_id = wanted
    assert device_id("gpu", context, rank, gpus) == expected
