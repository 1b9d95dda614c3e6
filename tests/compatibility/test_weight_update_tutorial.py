"""The tutorial on updating weights: its configuration, its lines, and what the model computes
afterwards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from changed_weights import with_weights
from mindir_models import fails, file_of, saved
from primitives import same

import rankmesh as mslite

CONFIG = """[ascend_context]
variable_weights_file="update_weight_name_list.txt"
"""
WEIGHT = "fc1.weight"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the tutorial's configuration."""
    (tmp_path / "config.ini").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKMESH_DEVICE", "cpu")
    return tmp_path


def build(names: str) -> mslite.Model:
    """As the tutorial builds; its quotes around the file's name count for nothing."""
    Path("update_weight_name_list.txt").write_text(names)
    context = mslite.Context()
    context.target = ["ascend"]
    context.gpu.device_id = 0
    model = mslite.Model()
    model.build_from_file(file_of("mlp"), mslite.ModelType.MINDIR, context, "config.ini")
    return model


@pytest.mark.usefixtures("folder")
def test_row_13_the_configuration_lists_the_weights_that_updates_may_replace() -> None:
    (x,), (reference,) = saved("mlp")
    same(build(f"{WEIGHT}\n").predict([x])[0].get_data_to_numpy(), reference)
    fails(RuntimeError, "no.such.weight", build, "no.such.weight\n")
    fails(
        RuntimeError, "variable is not norm name, now only support **weight", build, "fc1.kernel\n"
    )
    fails(RuntimeError, "only support 1 or 2 row name list", build, "fc1.weight,/fc1,more\n")


def test_row_14_update_weights(folder: Path) -> None:
    (x,), _ = saved("mlp")
    model, data = (
        build(f"{WEIGHT}\n"),
        np.random.default_rng(5).standard_normal((32, 16), np.float32),
    )
    new_weight = mslite.Tensor(data)
    new_weights = [new_weight]
    model.update_weights([new_weights])
    changed = mslite.Model()
    changed.build_from_file(
        with_weights(file_of("mlp"), {WEIGHT: data}, folder), mslite.ModelType.MINDIR
    )
    np.testing.assert_allclose(
        model.predict([x])[0].get_data_to_numpy(),
        changed.predict([x])[0].get_data_to_numpy(),
        rtol=1e-5,
        atol=1e-5,
    )
