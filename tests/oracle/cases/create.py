"""Tensors that are made: constants of a shape, ranges, triangles."""

from recorded import Case

TYPES = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "int8", "uint8", "bool_"]

CASES = [
    *(
        Case(f"(x, mint.zeros((2, 3), dtype=ms.{t}), mint.ones((2,), dtype=ms.{t}))", "1", "1")
        for t in TYPES
    ),
    *(
        Case(
            f"mint.full((x.shape[0], 2), 1, dtype=ms.{t})",
            "3",
            "1",
            reference=f"ops.ones((3, 2), ms.{t})",
        )
        for t in TYPES
    ),
    *(Case(f"mint.ones((x.shape[0], 2), dtype=ms.{t})", "3", "1") for t in TYPES),
    *(
        Case(
            f"mint.arange(0, x.shape[0], 1, dtype=ms.{t})",
            "3",
            "1",
            reference=f"ops.arange(0, 3).astype(ms.{t})",
        )
        for t in TYPES[:6]
    ),
    *(Case(f"mint.eye(3, x.shape[0], dtype=ms.{t})", "2", "1") for t in TYPES[:6]),
    Case("ops.ZerosLike()(x)"),
    Case("ops.OnesLike()(x)"),
    Case("mint.zeros_like(x)"),
    Case("mint.ones_like(x)"),
    Case("mint.zeros_like(x, dtype=ms.int32)", "2,3", "f"),
    Case("mint.full_like(x, 2)", "2,3", "f", reference="x * 0 + 2"),
    Case("ops.full_like(x, 2.5)", "2,3", "f"),
    Case("ops.fill(ms.float32, (x.shape[0], 2), 1.5)", "3", "1"),
    Case("ops.full((x.shape[0], 2), 1.5)", "3", "1"),
    Case("ops.FillV2()(ops.shape(x), y)", "2,3 :T", "fi"),
    Case("ops.zeros((x.shape[0], 2), ms.int32)", "3", "1"),
    Case("ops.Fills()(x, 2.0)", "2,3", "f", reference="x * 0 + 2"),
    Case("ops.arange(0, x.shape[0])", "3", "1"),
    Case("ops.arange(0.0, 2.0, 0.5) + x", "4", "1"),
    Case("ops.Range()(x, y, z)", ":T:0..0 :T:7..7 :T:2..2", "fi"),
    Case("ops.range(x, y, z)", ":int32:5..5 :int32:0..0 :int32:-2..-2", "1"),
    Case("ops.LinSpace()(x, y, 5)", ":T:0..0 :T:2..2", "f"),
    Case("mint.linspace(0, x.shape[0], 5)", "3", "1"),
    Case("ops.Triu()(x)", "3,4"),
    Case("ops.Tril(1)(x)", "3,4"),
    Case("ops.triu(x, -1)", "2,3,4", "f"),
    Case("ops.tril(x, -1)", "2,3,4", "f"),
    Case("mint.tril(x, 1)", "3,4"),
    Case("mint.triu(x, 1)", "3,4"),
    Case("ops.tril(ops.ones((x.shape[0], x.shape[0]), ms.bool_))", "4", "1"),
    Case("ops.tril_indices(3, 3) + x.astype(ms.int64)", "1", "1"),
    Case("ops.eye(3, 4, {T}) + x", "4", "fi"),
    Case("ops.hann_window(5) + x", "1", "1"),
    Case("ops.randn_like(x) * 0", "2,3", "1"),
    Case("m(x)", "3,4", "fI", "nn.Tril()"),
    Case("m(x)", "3,4", "fI", "nn.Triu()"),
    Case("x.new_zeros((2, 2))", "1", "f"),
    Case("x.new_ones((2, 2))", "1", "f"),
    Case("x.fill(2.0)", "2,3", "f"),
    Case("mint.empty_like(x) * 0", "2,3", "1"),
    Case("ops.cartesian_prod(x, y)", "2 3", "1"),
    Case("ops.vander(x, 3)", "4", "1"),
]
