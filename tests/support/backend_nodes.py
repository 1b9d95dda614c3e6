"""ONNX's backend tests of single nodes on the torch executor, and a table of those that fail.

`python tests/support/backend_nodes.py` writes the table in docs/executors.md.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from rankmesh.comm.errors import ModelError, RankFailed
from rankmesh.compiler.onnx_graph.onnx_values import all_nodes
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.plan import Segment

PAGE = Path(__file__).parents[2] / "docs" / "executors.md"
BEGIN, END = "<!-- generated: node tests -->\n", "<!-- end -->\n"
_UNUSUAL = {
    *(TensorProto.STRING, TensorProto.FLOAT8E8M0),
    *range(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ + 1),
    *range(TensorProto.UINT4, TensorProto.FLOAT4E2M1 + 1),
    *(TensorProto.UINT2, TensorProto.INT2),
}
"""Element types of texts, of 8-bit floats, and of packed integers."""
_LEFT_OUT = re.compile("Sequence|Optional|String|RegexFullMatch|TfIdf|Random|Multinomial|Bernoulli")
REASONS = {
    "test_attention_": "rounds float16 or bfloat16 elsewhere: one unit in the last place",
    "test_basic_deform_conv": "2e-7 where the reference has 0, with a tolerance of 1e-7",
    "test_dft_inverse": "0 where the reference has 2e-7, with a tolerance of 1e-7",
    "test_image_decoder": "torch has no decoder of images: the model is refused",
    "test_scan_sum": "the Scan of opset 8, with lengths of sequences: the model is refused",
}
"""Why tests fail, by the beginning of their names."""


def selected() -> list[Any]:
    """ONNX's node tests without training, texts, sequences, optional values, classic machine
    learning, random numbers, 8-bit floats and packed integers.
    """
    with warnings.catch_warnings():  # of numpy, in ONNX's own references
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return [case for case in load_model_tests(kind="node") if _is_usual(case)]


def _is_usual(case: Any) -> bool:
    model: ModelProto = case.model
    kinds = [info.type for info in (*model.graph.input, *model.graph.output)]
    if not all(kind.HasField("tensor_type") for kind in kinds):
        return False
    if _UNUSUAL & {kind.tensor_type.elem_type for kind in kinds} or "train" in case.name:
        return False
    return not any(_is_left_out(node) for node in all_nodes(model.graph.node))


def _is_left_out(node: Any) -> bool:
    types = {one.i for one in node.attribute if one.name in ("to", "output_dtype")}
    foreign = node.domain not in ("", "ai.onnx")
    return bool(foreign or _LEFT_OUT.search(node.op_type) or types & _UNUSUAL)


def failures(cases: list[Any]) -> dict[str, str]:
    """The failed tests, with their differences."""
    executor = TorchExecutor()
    found = {}
    for case in cases:
        try:
            _check(executor, case)
        except (AssertionError, ModelError, RankFailed) as error:
            found[case.name] = str(error)
    return found


def _check(executor: TorchExecutor, case: Any) -> None:
    """Run a test twice: the second run has a call list for its shapes."""
    graph = case.model.graph
    constants = {record.name for record in graph.initializer}
    inputs = tuple(info.name for info in graph.input if info.name not in constants)
    outputs = tuple(info.name for info in graph.output)
    prepared = executor.prepare(Segment(case.model, inputs, outputs), "/")
    for given, wanted in [*case.data_sets, *case.data_sets]:
        made = prepared.run([_array(one) for one in given], [None] * len(outputs))
        for one, reference in zip(made, map(_array, wanted), strict=True):
            assert (one.dtype, one.shape) == (reference.dtype, reference.shape)
            if one.dtype.kind == "V":  # bfloat16
                one, reference = one.astype(np.float32), reference.astype(np.float32)
            np.testing.assert_allclose(one, reference, rtol=case.rtol, atol=case.atol)


def _array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def table(count: int, failed: dict[str, str]) -> str:
    """The part of the page."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in failed:
        reason = next((text for start, text in REASONS.items() if name.startswith(start)), "?")
        groups[reason].append(name)
    sizes = Counter({reason: len(names) for reason, names in groups.items()})
    rows = [
        f"| {sizes[reason]} | {', '.join(f'`{name}`' for name in sorted(names))} | {reason} |"
        for reason, names in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    passed = count - sizes.total()
    return "\n".join(
        [
            f"{passed:,} of {count:,} pass, {100 * passed / count:.1f} %. The others:\n",
            "| tests | names | reason |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def written() -> str:
    """The part of the page as it is."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def named() -> list[str]:
    """The tests that the page says fail."""
    return re.findall(r"`(test_\w+)`", written())


def is_rounding(name: str) -> bool:
    """Whether it depends on the CPU if a test fails: by how halves are rounded."""
    return name.startswith("test_attention_")


if __name__ == "__main__":
    CASES = selected()
    TEXT = PAGE.read_text()
    HEAD, TAIL = TEXT.partition(BEGIN)[0], TEXT.partition(END)[2]
    PAGE.write_text(HEAD + BEGIN + table(len(CASES), failures(CASES)) + END + TAIL)
