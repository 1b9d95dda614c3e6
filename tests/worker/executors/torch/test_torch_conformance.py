"""A part of MindSpore's recorded primitives and networks on the torch executor.

docs/executors.md has the command for all of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from recorded_runs import FAMILIES, NAMED, RUNS, computed, differences, draws, label

from rankmesh import Context, Model, ModelType
from rankmesh.compiler.lowering.unsupported import unsupported
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.worker.executors.torch import TorchExecutor

DATA = Path(__file__).parents[3] / "data" / "mindir"
NETWORKS = (
    "bert_encoder",
    "bf16_params",
    "cf_switch_layer",
    "cf_while_dynamic",
    "dyn_attn",
    "fp16_mlp",
    "gpt2_dyn",
    "lstm",
    "mobilenetv2",
    "tf_experts_dyn",
    "zoo_shape",
)
EACH = 6
"""One of so many recorded primitives is run here."""
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Of the largest element."""


def test_primitives_compute_what_mindspore_computed(tmp_path: Path) -> None:
    executor, path, wrong = TorchExecutor(), tmp_path / "case.mindir", {}
    for run in RUNS[::EACH]:
        family, record = FAMILIES[run[0]], FAMILIES[run[0]].records[run[1]]
        path.unlink(missing_ok=True)  # the file before it may still be mapped
        path.write_bytes(family.file(record))
        source = read_model(str(path))
        if unsupported(source) or draws(source):
            continue
        made = computed(source, tmp_path, record, executor)
        found = differences(record, made, list(family.results(record, NAMED.__getitem__)))
        if found:
            wrong[label(run)] = found
    assert not wrong


@pytest.mark.parametrize("network", NETWORKS)
def test_network_computes_what_mindspore_computed(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_EXECUTOR", "torch")
    context, model = Context(), Model()
    context.cpu.thread_num = 1
    model.build_from_file(str(DATA / network / f"{network}.mindir"), ModelType.MINDIR, context)
    with np.load(DATA / network / f"{network}.npz") as arrays:
        saved = dict(arrays)
    inputs = [saved[f"in_{at}"] for at in range(len(saved)) if f"in_{at}" in saved]
    for at, output in enumerate(model.predict(inputs)):
        made, reference = output.get_data_to_numpy(), saved[f"out_{at}"]
        assert made.shape == reference.shape
        if made.dtype.name not in TOLERANCE:
            np.testing.assert_array_equal(made, reference)
            continue
        limit = TOLERANCE[made.dtype.name] * np.abs(reference.astype(np.float64)).max(initial=1e-6)
        gap = np.abs(made.astype(np.float64) - reference.astype(np.float64)).max(initial=0)
        assert gap <= limit
