"""Which device takes the place of one that is missing."""

from __future__ import annotations

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.worker.device import choose_device, gpu_count


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RANKMESH_DEVICE", raising=False)


@pytest.mark.parametrize("targets", [["cpu"], ["CPU"], ["gpu", "cpu"], ["cpu", "gpu"]])
def test_a_device_that_is_there_needs_no_warning(targets: list[str], caplog: pytest.LogCaptureFixture):
    assert choose_device(targets) == "cpu"
    assert not caplog.records


def test_the_variable_decides_and_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert choose_device(["gpu"]) == "cpu"
    monkeypatch.setenv("RANKMESH_DEVICE", "GPU")
    assert choose_device(["ascend"]) == "gpu"
    monkeypatch.setenv("RANKMESH_DEVICE", "tpu")
    with pytest.raises(UsageError, match="RANKMESH_DEVICE=tpu: expected one of cpu, gpu, ascend"):
        choose_device(["ascend"])


@pytest.mark.parametrize("visible", ["", "-1", "-1,0"])
def test_hidden_gpus_do_not_count(visible: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == 0
