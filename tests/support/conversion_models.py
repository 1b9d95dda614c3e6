"""Models of conversions: branches, loops and open sizes as ONNX text, with inputs."""

from __future__ import annotations

import numpy as np

RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"}
RANDOM |= {"RandomUniform", "RandomUniformLike"}
"""Operators whose results no other program repeats; test_random_conversions.py has them."""
SEQUENCES = {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"}
SEQUENCES |= {"SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"}
"""Operators of test_sequence_conversions.py."""
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
IMAGES = f"""
<ir_version: 10, opset_import: ["": 18]>
images (float[n, 4, height, width] x) => (float[n, 4, a, b] y, float[n, 4, c, d] z, float[n, 2, e, f] t,
    float[n, 1, g, h] blocks, float[n, 4, i, j] spread)
<float[4, 2, 3, 3] kernel = {{{", ".join(WEIGHT.split(", ")[:72])}}}>
{{
    most = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
    mean = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
    spread = MaxPool <kernel_shape = [3, 3], dilations = [2, 2], pads = [1, 1, 1, 1]> (x)
    twice = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
    y = Resize <mode = "linear"> (most, , twice)
    sizes = Shape (x)
    z = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">
        (y, , , sizes)
    t = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (mean, kernel)
    blocks = DepthToSpace <blocksize = 2, mode = "CRD"> (mean)
}}
"""  # noqa: E501
"""Images whose sizes are open."""


def recurrent(operator: str, rows: int, length: str) -> str:
    """A recurrent layer of both directions."""
    numbers = WEIGHT.split(", ")
    return f"""
<ir_version: 10, opset_import: ["": 18]>
steps (float[{length}, n, 3] x) => (float[{length}, 2, n, 2] y, float[2, n, 2] last)
<float[2, {rows}, 3] weight = {{{", ".join(numbers[: 6 * rows])}}},
    float[2, {rows}, 2] recurrence = {{{", ".join(numbers[: 4 * rows])}}}>
{{
    y, last = {operator} <hidden_size = 2, direction = "bidirectional"> (x, weight, recurrence)
}}
"""


STEPS = recurrent("LSTM", 8, "length")
"""A recurrent layer whose number of steps and batch are open."""
GATES = recurrent("GRU", 6, "4")
"""Another, whose batch alone is open."""
SEQUENCES_TEXT = """
<ir_version: 10, opset_import: ["": 18]>
sequences (float[2, 6] x, float[2, 6] y) => (float[A, B] u, float[C, D, E] v, float[F] w, int64 n) {
    one = Constant <value = int64 {1}> ()
    last = Constant <value = int64 {-1}> ()
    both = SequenceConstruct (x, y)
    sum = Add (x, y)
    three = SequenceInsert (both, sum, one)
    four = SequenceInsert (three, x, last)
    kept = SequenceErase (four)
    none = SequenceEmpty ()
    single = SequenceInsert (none, sum)
    inner = SequenceAt (single, last)
    u0 = ConcatFromSequence <axis = 1> (kept)
    u = Add (u0, u0)
    v = ConcatFromSequence <axis = -1, new_axis = 1> (four)
    n = SequenceLength (four)
    sizes = Constant <value = int64[2] {4, 2}> ()
    parts = SplitToSequence <axis = 1> (inner, sizes)
    two = Constant <value = int64 {4}> ()
    pieces = SplitToSequence <axis = 1> (x, two)
    rows = SplitToSequence <axis = 0, keepdims = 0> (y)
    part = SequenceAt (parts, one)
    piece = SequenceAt (pieces, one)
    row = SequenceAt (rows, last)
    short = Add (part, piece)
    flat = Constant <value = int64[1] {-1}> ()
    first = Reshape (short, flat)
    w = Concat <axis = 0> (first, row)
}
"""
CHOICES = """
<ir_version: 10, opset_import: ["": 18]>
choices (float[100, 100] half)
    => (float a, float b, float c, float d, float e, float f, int32[1, 9] g) {
    ten = Constant <value = float {10.0}> ()
    yes = Constant <value = bool {1}> ()
    part = Constant <value = float {0.5}> ()
    sure = Constant <value = float[1, 3] {-99.0, 0.0, -99.0}> ()
    ua = RandomUniform <shape = [100, 100], low = 1.0, high = 3.0> ()
    ub = RandomUniformLike (half)
    uc = RandomNormal <shape = [100, 100], mean = 4.0> ()
    ud = RandomNormalLike <scale = 0.1, mean = -1.0> (half)
    ue = Bernoulli (half)
    uf = Dropout (half, part, yes)
    ma = ReduceMean <keepdims = 0> (ua)
    mb = ReduceMean <keepdims = 0> (ub)
    mc = ReduceMean <keepdims = 0> (uc)
    md = ReduceMean <keepdims = 0> (ud)
    me = ReduceMean <keepdims = 0> (ue)
    mf = ReduceMean <keepdims = 0> (uf)
    a = Round (ma)
    tb = Mul (mb, ten)
    b = Round (tb)
    c = Round (mc)
    d = Round (md)
    te = Mul (me, ten)
    e = Round (te)
    tf = Mul (mf, ten)
    f = Round (tf)
    g = Multinomial <sample_size = 9> (sure)
}
"""
"""Means of random numbers, rounded so far that all runs give the same."""
X = np.linspace(-1, 2, 20, dtype=np.float32).reshape(2, 10)
Y = np.arange(12, dtype=np.float32).reshape(2, 6)
MODELS: dict[str, tuple[str, tuple[np.ndarray, ...]]] = {
    "If: then": (BRANCHES, (X,)),
    "If: else": (BRANCHES, (-X,)),
    "Loop: 0 turns": (TURNS, (X, np.asarray(0))),
    "Loop: 3 turns": (TURNS, (X, np.asarray(3))),
    "Loop: ended by its condition": (TURNS, (X, np.asarray(9))),
    "Loop: outputs of all turns": (COLLECTED, (np.float32([1, 2]), np.asarray(4))),
    "Loop: begins with constants": (CONSTANT_START, (np.float32([1, 2]),)),
    f"{', '.join(sorted(RANDOM))}: means": (CHOICES, (np.full((100, 100), 0.5, np.float32),)),
    f"{', '.join(sorted(SEQUENCES))}: known elements": (SEQUENCES_TEXT, (Y, Y[::-1] * 3)),
    "MaxPool, AveragePool, Resize, ConvTranspose, DepthToSpace: open sizes": (
        IMAGES,
        (np.linspace(-1, 2, 504, dtype=np.float32).reshape(2, 4, 9, 7),),
    ),
    "GRU: an open batch": (GATES, (np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 2, 3),)),
    "LSTM: open sizes": (STEPS, (np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 2, 3),)),
    "Shape, Range, ConstantOfShape, Size": (FOLDS, (np.ones((2, 3, 4), np.float32),)),
}
"""Each model with inputs that take one way through it."""
