"""Reductions, extremes, statistics and norms along axes."""

from recorded import Case

REDUCE = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"]
MINT = ["sum", "mean", "prod", "max", "min", "all", "argmax", "amax", "amin"]
GAP = "(x - x.mean({0}, True))"
VAR = f"({GAP} ** 2).sum({{0}}, keepdims={{2}}) / {{1}}"
# What MindSpore has no kernel for on a CPU, and the same in other words.
WITHOUT_KERNEL = {
    "mint.var(x)": VAR.format("(0, 1)", 5, False),
    "mint.var(x, 1)": VAR.format("1", 2, False),
    "mint.std(x)": f"ops.sqrt({VAR.format('(0, 1)', 5, False)})",
    "mint.std(x, 1)": f"ops.sqrt({VAR.format('1', 2, False)})",
    "mint.var(x, 1, correction=0, keepdim=True)": VAR.format("1", 3, True),
    "mint.std(x, 1, correction=0, keepdim=True)": f"ops.sqrt({VAR.format('1', 3, True)})",
    "mint.var_mean(x, 1)": f"({VAR.format('1', 2, False)}, x.mean(1))",
    "mint.std_mean(x, (0, 1))": f"(ops.sqrt({VAR.format('(0, 1)', 5, False)}), x.mean())",
    "mint.argmin(x)": "ops.Argmin(0, ms.int64)(x.reshape((-1,)))",
    "mint.argmin(x, 1)": "ops.Argmin(1, ms.int64)(x)",
    "mint.argmin(x, 1, True)": "ops.Argmin(1, ms.int64)(x).reshape((-1, 1))",
    "mint.median(x)": "ops.sort(x.reshape((-1,)))[0][2]",
    "mint.median(x, 1)": "(ops.sort(x, 1)[0][:, 1], ops.sort(x, 1)[1][:, 1].astype(ms.int64))",
    "mint.median(x, 1, True)": (
        "(ops.sort(x, 1)[0][:, 1:2], ops.sort(x, 1)[1][:, 1:2].astype(ms.int64))"
    ),
    "mint.logsumexp(x, 1)": "ops.logsumexp(x, 1)",
    "mint.logsumexp(x, (0, 1), True)": "ops.logsumexp(x, (0, 1), True)",
    "mint.count_nonzero(x)": "(x != 0).astype(ms.int64).sum()",
    "mint.count_nonzero(x, 1)": "(x != 0).astype(ms.int64).sum(1)",
    "mint.norm(x)": "ops.norm(x)",
    "mint.norm(x, 2, 1)": "ops.norm(x, 2, 1)",
    "mint.norm(x, 1, 1)": "ops.abs(x).sum(1)",
    "mint.norm(x, float('inf'), 1)": "ops.amax(ops.abs(x), 1)",
    "mint.norm(x, 3, 1, True)": "ops.vector_norm(x, 3, 1, True)",
    "mint.norm(x, 0, 1)": "(x != 0).astype(x.dtype).sum(1)",
    "mint.nn.functional.normalize(x)": "x / ops.norm(x, 2, 1, True)",
    "mint.trace(x)": "x[0, 0] + x[1, 1]",
    "mint.histc(x, 4, -4, 4)": "((ops.floor(x / 2) + 2).reshape((-1, 1)) == ops.arange(0.0, 4.0))"
    ".astype(ms.float32).sum(0)",
}

CASES = [
    *(Case(f"ops.{name}()(x, 1)", "2,3:T:one") for name in REDUCE),
    *(Case(f"ops.{name}(True)(x, (0, 2))", "2,3,2:T:one", "f") for name in REDUCE),
    *(Case(f"ops.{name}()(x)", "2,3:T:one", "fI") for name in REDUCE),
    Case("ops.ReduceAll()(x, 1)", "2,3", "fib"),
    Case(
        "ops.ReduceAny()(x, 1)", "2,3", "1Ib"
    ),  # MindSpore itself is wrong with float64 and uint64
    *(Case(f"ops.{name}(True)(x)", "2,3", "b") for name in ("ReduceAll", "ReduceAny")),
    *(Case(f"mint.{name}(x)", "2,3:T:one", "fib") for name in MINT if name not in ("amax", "amin")),
    *(Case(f"mint.{name}(x, 1)", "2,3:T:one", "fI") for name in MINT),
    *(
        Case(f"mint.{name}(x, 1, True)", "2,3:T:one", "f")
        for name in ("max", "min", "amax", "amin", "argmax")
    ),
    *(
        Case(f"mint.{name}(x, dim=(0, 2), keepdim=True)", "2,3,2:T:one", "f")
        for name in ("sum", "mean", "amax", "amin")
    ),
    *(Case(call, "2,3", "f", reference=reference) for call, reference in WITHOUT_KERNEL.items()),
    Case("mint.nansum(x)", "8:T:special", "f"),
    Case("mint.nansum(x, 1)", "2,4:T:special", "f"),
    Case("mint.any(x)", "2,3", "1Ib"),
    Case("mint.any(x, 1)", "2,3", "1Ib"),
    Case("mint.sum(x, dim=1, dtype=ms.float32)", "2,3", "fib"),
    Case("mint.prod(x, 1, dtype=ms.float32)", "2,3", "fI"),
    Case("mint.mean(x, 1, dtype=ms.float32)", "2,3", "fI"),
    Case("ops.ReduceStd(axis=1, unbiased=True, keep_dims=False)(x)", "2,3", "f"),
    Case("ops.ReduceStd(axis=(0,), unbiased=False, keep_dims=True)(x)", "2,3", "f"),
    Case("ops.Argmax(axis=-1)(x)", "2,4", "fi"),
    Case("ops.Argmax(axis=0, output_type=ms.int64)(x)", "2,4", "f"),
    Case("ops.Argmin(axis=1)(x)", "2,4", "fi"),
    Case("ops.Argmax(axis=-1)(x)", "3,6:T:0..2", "f"),
    Case("ops.ArgMaxWithValue(axis=1, keep_dims=True)(x)", "2,4", "fi"),
    Case("ops.ArgMinWithValue(axis=0)(x)", "2,4", "fi"),
    Case("mint.max(x, y)", "2,3 2,3", "fI"),
    Case("mint.argmax(x, 1, True)", "2,4", "fI"),
    Case("ops.max(x, 1, True)", "2,4", "fI"),
    Case("ops.min(x, 1)", "2,4", "fI"),
    Case("ops.amax(x, (0, 1))", "2,4", "f"),
    Case("ops.argmax(x, 1)", "2,4", "f"),
    Case("ops.all(x, 1)", "2,4", "b"),
    Case("ops.any(x, (0, 1), True)", "2,4", "b"),
    Case("ops.aminmax(x, axis=1)", "2,4", "f"),
    Case("ops.std(x, 1)", "2,4", "1"),
    Case("ops.var(x, 1, ddof=True)", "2,4", "1"),
    Case("ops.mean(x, (0, 1))", "2,4", "f"),
    Case("ops.prod(x, 1)", "2,4:T:one", "fI"),
    Case("ops.logsumexp(x, (0, 1))", "2,4", "f"),
    Case("ops.count_nonzero(x, 1)", "2,4:T:0..2", "fi"),
    Case("ops.LpNorm(axis=1, p=2)(x)", "2,4", "f"),
    Case("ops.LpNorm(axis=(0, 1), p=1, keep_dims=True)(x)", "2,4", "f"),
    Case("ops.LpNorm(axis=1, p=3)(x)", "2,4", "f"),
    Case("ops.norm(x)", "2,4", "f"),
    Case("ops.norm(x, ord=1, dim=1)", "2,4", "f"),
    Case("ops.norm(x, ord=float('inf'), dim=1, keepdim=True)", "2,4", "f"),
    Case("ops.vector_norm(x, 3, 1)", "2,4", "f"),
    Case("ops.L2Normalize(1)(x)", "2,4", "f"),
    Case("ops.L2Normalize(0, 1.0)(x)", "2,4", "f"),
    Case("ops.Median(False, 1)(x)", "2,5", "fi"),
    Case("ops.Median(False, 0, True)(x)", "4,3", "f"),
    Case("ops.Median(True)(x)[0]", "3,3", "f"),
    Case("ops.dist(x, y)", "2,3 2,3", "1"),
    Case("mint.cdist(x, y)", "2,3 4,3", "1"),
    Case("ops.Cdist(2.0)(x, y)", "1,2,3 1,4,3", "1"),
    Case("ops.cosine_similarity(x, y)", "2,3 2,3", "1"),
    Case("ops.Trace()(x)", "3,3", "fi"),
    Case("ops.nanmean(x, 1)", "2,4", "1"),
    Case("ops.nansum(x, 1)", "2,4:T:special", "1"),
    Case("ops.SquareSumAll()(x, y)", "2,3 2,3", "f"),
    Case("ops.L2Loss()(x)", "2,3", "f"),
    Case("ops.cov(x)", "2,5", "1"),
    Case("mint.bincount(x)", "6:int64:0..4", "1", reference="ops.bincount(x).astype(ms.int64)"),
    Case("ops.Bincount()(x, y, z)", "6:int32:0..3 :int32:4..4 6", "f"),
    Case("ops.UnsortedSegmentSum()(x, y, 3)", "4,2 4:int32:0..2"),
    Case("ops.UnsortedSegmentMax()(x, y, 3)", "4,2 4:int32:0..2", "fi"),
    Case("ops.UnsortedSegmentMin()(x, y, 3)", "4,2 4:int32:0..2", "fi"),
    Case("ops.UnsortedSegmentProd()(x, y, 3)", "4,2 4:int32:0..2", "fi"),
    Case("m(x)", "2,3,4", "f", "nn.Moments(1)"),
    Case("m(x)", "2,3,4", "f", "nn.ReduceLogSumExp(1)"),
]
