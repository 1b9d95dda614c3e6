"""Models of conversions: branches, loops and open sizes as ONNX text, with inputs."""

from __future__ import annotations

import numpy as np

WEIGHT = ", ".join(str(0.01 * (number % 13) - 0.05) for number in range(100))
BRANCHES = f"""
<ir_version: 10, opset_import: ["": 18]>
branches (float[2, 10] x) => (float[2, 10] y, float[2, 10] z)
<float[10, 10] weight = {{{WEIGHT}}}>
{{
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value = float {{0.0}}> ()
    positive = Greater (total, zero)
    y, z = If (positive) <
        then_branch = yes () => (float[2, 10] a, float[2, 10] b) {{
            a = MatMul (x, weight)
            b = Add (a, x)
        }},
        else_branch = no () => (float[2, 10] c, float[2, 10] d) {{
            c = Neg (x)
            d = Mul (c, total)
        }}
    >
}}
"""
TURNS = f"""
<ir_version: 10, opset_import: ["": 18]>
turns (float[2, 10] x, int64 count) => (float[2, 10] y, float steps)
<float[10, 10] weight = {{{WEIGHT}}}>
{{
    yes = Constant <value = bool {{1}}> ()
    none = Constant <value = float {{0.0}}> ()
    limit = Constant <value = float {{5.0}}> ()
    y, steps = Loop (count, yes, x, none) <
        body = turn (int64 i, bool go, float[2, 10] h, float n)
            => (bool again, float[2, 10] h_out, float n_out) {{
            one = Constant <value = float {{1.0}}> ()
            moved = MatMul (h, weight)
            h_out = Add (moved, x)
            n_out = Add (n, one)
            again = Less (n_out, limit)
        }}
    >
}}
"""
COLLECTED = """
<ir_version: 10, opset_import: ["": 18]>
collected (float[2] x, int64 count) => (float[2] y, float[K, 2] all)
{
    yes = Constant <value = bool {1}> ()
    y, all = Loop (count, yes, x) <
        body = turn (int64 i, bool go, float[2] h) => (bool again, float[2] h_out, float[2] each) {
            again = Identity (go)
            h_out = Add (h, h)
            each = Neg (h)
        }
    >
}
"""
CONSTANT_START = """
<ir_version: 10, opset_import: ["": 18]>
constant_start (float[2] x) => (float[2] y, float[3, 2] all)
{
    count = Constant <value = int64 {3}> ()
    yes = Constant <value = bool {1}> ()
    start = Constant <value = float[2] {1, 2}> ()
    y, all = Loop (count, yes, start) <
        body = turn (int64 i, bool go, float[2] h) => (bool again, float[2] h_out, float[2] each) {
            again = Identity (go)
            h_out = Mul (h, x)
            each = Neg (h_out)
        }
    >
}
"""
FOLDS = """
<ir_version: 10, opset_import: ["": 18]>
folds (float[batch, length, 4] x) => (float[pairs, 4] y, int64[length] places) {
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    two = Constant <value_ints = [2]> ()
    four = Constant <value_ints = [4]> ()
    front = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    sizes = Shape (x)
    length_size = Gather (sizes, one)
    width = Constant <value = int64 {4}> ()
    elements = Size (x)
    both = Div (elements, width)
    row = Unsqueeze (both, front)
    target = Concat <axis = 0> (row, four)
    flat = Reshape (x, target)
    length_row = Unsqueeze (length_size, front)
    places = Range (zero, length_size, one)
    wide = Expand (flat, target)
    zeros = ConstantOfShape (target)
    y = Add (wide, zeros)
}
"""
"""A model that computes with its own sizes, two of which are open."""
X = np.linspace(-1, 2, 20, dtype=np.float32).reshape(2, 10)
MODELS: dict[str, tuple[str, tuple[np.ndarray, ...]]] = {
    "If: then": (BRANCHES, (X,)),
    "If: else": (BRANCHES, (-X,)),
    "Loop: 0 turns": (TURNS, (X, np.asarray(0))),
    "Loop: 3 turns": (TURNS, (X, np.asarray(3))),
    "Loop: ended by its condition": (TURNS, (X, np.asarray(9))),
    "Loop: outputs of all turns": (COLLECTED, (np.float32([1, 2]), np.asarray(4))),
    "Loop: begins with constants": (CONSTANT_START, (np.float32([1, 2]),)),
    "Shape, Range, ConstantOfShape, Size": (FOLDS, (np.ones((2, 3, 4), np.float32),)),
}
"""Each model with inputs that take one way through it."""
