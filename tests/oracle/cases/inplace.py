"""Primitives that overwrite their first input, or a parameter.

MindSpore has no kernels for most of them on a CPU: each comes with the same in other words.
"""

from recorded import Case

PARAMETER = "Parameter(Tensor(np.ones((4, 3)), {T}), name=('{T}' + '____')[3:11])"
KEEPING = ("Add", "Sub", "Mul", "Max", "Min")
CASES = [
    *(
        Case(call, inputs, "f", reference=reference)
        for call, inputs, reference in (
            (
                "ag.InplaceAddmm()(x * 1, y, z, 2, 0.5)",
                "2,4 2,3 3,4",
                "2 * x + 0.5 * ops.matmul(y, z)",
            ),
            ("ag.InplaceElu()(x * 1, 0.5)", "2,3", "ops.where(x > 0, x, 0.5 * (ops.exp(x) - 1))"),
            ("ag.InplaceFillTensor()(x * 1, y)", "2,3 :T", "x * 0 + y"),
            ("ag.InplaceLog()(x * 1)", "2,3:T:pos", "ops.log(x)"),
            ("ag.InplaceSign()(x * 1)", "2,3", "ops.sign(x)"),
            ("ag.InplaceSiLU()(x * 1)", "2,3", "x * ops.sigmoid(x)"),
            ("ag.InplaceTanh()(x * 1)", "2,3", "ops.tanh(x)"),
            (
                "ag.InplaceScatterAdd()(x * 1, 1, y, z)",
                "2,3 2,2:int64:0..2 2,2",
                "ops.tensor_scatter_elements(x, y, z, 1, 'add')",
            ),
            (
                "ag.InplaceScatterSrc()(x * 1, 0, y, z)",
                "3,2 1,2:int64:0..2 1,2",
                "ops.tensor_scatter_elements(x, y, z, 0)",
            ),
        )
    ),
    *(
        Case(f"ops.Scatter{how}()(m, x, y)", "2:int32:1..1 2,3", "f", cell=PARAMETER)
        for how in KEEPING
    ),
    *(
        Case(f"ops.ScatterNd{how}()(m, x, y)", "3,1:int32:0..3 3,3", "f", cell=PARAMETER)
        for how in KEEPING
    ),
    Case("ops.ScatterMax()(m, x, y)", "2:int32:1..1 2,3", "i", cell=PARAMETER),
    Case("ops.ScatterNdMul()(m, x, y)", "3,1:int32:0..3 3,3", "i", cell=PARAMETER),
]
