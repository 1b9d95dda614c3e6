"""Sums, products and extremes of segments, and rows that are added to or replaced, by older names
and in place.
"""

from recorded import Case

SORTED = "Tensor([0, 0, 2, 2, 2, 4])"
CASES = [
    *(
        Case(f"ops.Segment{how}()(x, {SORTED})", "6,3", kinds)
        for how, kinds in (
            ("Sum", "fi"),
            ("Mean", "f"),
            ("Prod", "f"),
            ("Max", "fi"),
            ("Min", "fi"),
        )
    ),
    *(Case(f"ops.Inplace{how}((0, 2))(x * 1, y)", "4,3 2,3", "f") for how in ("Add", "Sub")),
    Case("ops.inplace_update(x * 1, y, (3, 1))", "4,3 2,3", "f"),
    Case("ops.inplace_update(x * 1, y, z)", "4,3 2,3 2:int32:1..2", "1"),
    Case(
        "ops.inplace_index_add(m, x, y, 0)",
        "2:int32:1..2 2,3",
        "1",
        "Parameter(Tensor(np.ones((4, 3)), {T}), name='m_a')",
    ),
    *(
        Case(call, inputs, "f", reference=reference)
        for call, inputs, reference in (
            (
                "ag.InplaceIndexAddExt()(x * 1, 0, y, z, 2)",
                "4,3 2:int32:1..1 2,3",
                "ops.index_add(x, y, z * 2, 0)",
            ),
            ("ag.InplaceMaskedScatter()(x * 1, y, z)", "2,3 2,3:bool 6", "x.masked_scatter(y, z)"),
            (
                "ag.InplaceIndexFillScalar()(x * 1, 1, y, 0.5)",
                "2,3 2:int64:0..1",
                "ops.index_fill(x, 1, y.astype(ms.int32), 0.5)",
            ),
            (
                "ag.InplaceScatterValue()(x * 1, 1, y, 0.5)",
                "2,3 2,2:int64:0..2",
                "ops.tensor_scatter_elements(x, y, ops.full_like(x[:, :2], 0.5), 1)",
            ),
            ("ag.InplaceThreshold()(x * 1, 0.5, 0.25)", "2,3", "ops.where(x > 0.5, x, 0.25)"),
            ("ag.InplaceErfinv()(x * 1)", "2,3:T:prob", "ops.erfinv(x)"),
        )
    ),
]
