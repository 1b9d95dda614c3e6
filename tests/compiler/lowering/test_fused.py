"""What onnxruntime makes of the lowering: the fused operators that a clean export gets, and nothing
in between.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.partition.plan import Segment

DATA = Path(__file__).parents[2] / "data" / "mindir"
PARTS = {
    "ReduceMean",
    "Pow",
    "Sqrt",
    "Erf",
    "Tanh",
    "Sigmoid",
    "Relu",
    "Clip",
    "BatchNormalization",
    "Div",
    "Expand",
}
"""What is left of norms, activations and scales where they are not fused; of a Dense, MatMul and
Add.
"""


def optimized(name: str, folder: Path) -> Counter[str]:
    """How many nodes of each kind onnxruntime runs, with the options of our executor."""
    loaded = load_model(str(DATA / name / f"{name}.mindir"))
    (segment,) = make_plan(loaded, 0, 1).steps
    assert isinstance(segment, Segment)
    OnnxRuntime().save(segment, loaded.folder, str(folder / "optimized.onnx"))
    nodes = onnx.load(folder / "optimized.onnx", load_external_data=False).graph.node
    return Counter(node.op_type for node in nodes)


@pytest.mark.parametrize(
    ("name", "wanted", "absent"),
    [
        (
            "bert_encoder",
            {
                "LayerNormalization": 5,
                "Gelu": 2,
                "FusedMatMul": 2,
                "Gemm": 12,
                "MatMul": 2,
                "Softmax": 2,
                "Transpose": 8,
                "Cast": 1,
            },
            PARTS | {"Shape", "SkipLayerNormalization"},
        ),
        (
            "gpt2",
            {
                "LayerNormalization": 5,
                "Gelu": 2,
                "FusedMatMul": 2,
                "Gemm": 9,
                "MatMul": 2,
                "Split": 2,
                "Transpose": 8,
            },
            PARTS | {"Shape", "Cast", "Slice"},
        ),
        (
            "gpt2_dyn",
            {"LayerNormalization": 5, "Gelu": 2, "FusedMatMul": 2, "Gemm": 9, "Gather": 2},
            PARTS | {"Cast"},
        ),
        (
            "llama",
            {"SimplifiedLayerNormalization": 5, "QuickGelu": 2, "FusedMatMul": 2, "Gemm": 15},
            (PARTS | {"Shape", "Cast"}) - {"Expand"},
        ),
        (
            "sd_unet",
            {
                "InstanceNormalization": 14,
                "QuickGelu": 13,
                "LayerNormalization": 9,
                "Gelu": 3,
                "Gemm": 37,
                "Conv": 23,
            },
            (PARTS | {"Shape"}) - {"Expand"},
        ),
        (
            "resnet50",
            {"Conv": 53, "Gemm": 1, "MaxPool": 1},
            (PARTS | {"Add", "Shape"}) - {"ReduceMean"},
        ),
        ("mobilenetv2", {"Conv": 52, "Gemm": 1}, (PARTS | {"Add", "Shape"}) - {"ReduceMean"}),
    ],
)
def test_fused_as_a_clean_export(
    name: str, wanted: dict[str, int], absent: set[str], tmp_path: Path
) -> None:
    found = optimized(name, tmp_path)
    assert {kind: found[kind] for kind in wanted} == wanted
    assert not absent & found.keys()


def test_few_nodes_for_shapes_that_only_the_run_tells(tmp_path: Path) -> None:
    found = optimized("gpt2_dyn", tmp_path)
    assert found["Shape"] + found["Concat"] <= 30 and found["Reshape"] <= 28
