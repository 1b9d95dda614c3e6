"""Sorting, the largest, running sums and extremes."""

from recorded import Case

# What MindSpore has no kernel for on a CPU, and the same in other words.
WITHOUT_KERNEL = {
    "mint.topk(x, 2)": "(ops.topk(x, 2)[0], ops.topk(x, 2)[1].astype(ms.int64))",
    "mint.topk(x, 2, 0, False)": "(ops.sort(x, 0)[0][:2], ops.sort(x, 0)[1][:2].astype(ms.int64))",
    "mint.sort(x)": "(ops.sort(x)[0], ops.sort(x)[1].astype(ms.int64))",
    "mint.sort(x, dim=0, descending=True, stable=True)": (
        "(ops.sort(x, 0, True)[0], ops.sort(x, 0, True)[1].astype(ms.int64))"
    ),
    "mint.argsort(x, 1)": "ops.sort(x, 1)[1].astype(ms.int64)",
    "mint.kthvalue(x, 2)": "(ops.sort(x)[0][:, 1], ops.sort(x)[1][:, 1].astype(ms.int64))",
    "mint.cumsum(x, 1)": "ops.cumsum(x, 1)",
    "mint.cumsum(x, 1, dtype=ms.float32)": "ops.cumsum(x.astype(ms.float32), 1)",
    "mint.cummin(x, 1)": "(ops.cummin(x, 1)[0], ops.cummin(x, 1)[1].astype(ms.int64))",
    "ops.CumulativeLogsumexp()(x, Tensor(1))": "ops.log(ops.cumsum(ops.exp(x), 1))",
}

CASES = [
    Case("ops.TopK(True)(x, 2)", "2,6", "fi"),
    Case("ops.topk(x, 3, 0)", "6,2", "f"),
    Case("ops.topk(x, 2, largest=False)", "2,6", "f"),
    Case("ops.Sort()(x)", "2,6", "fi"),
    Case("ops.Sort(0, True)(x)", "4,3", "f"),
    Case("ops.sort(x, 1)", "2,6", "f"),
    Case("ops.argsort(x, 1, True)", "2,6", "f"),
    Case("ops.msort(x)", "4,3", "f"),
    Case("ops.CumSum()(x, 1)", "2,4", "fib"),
    Case("ops.CumSum(True, True)(x, 0)", "3,2", "fI"),
    Case("ops.cumsum(x, 1, ms.float32)", "2,4", "fi"),
    Case("ops.CumProd()(x, 1)", "2,4:T:one", "fi"),
    Case("ops.CumProd(True, True)(x, 0)", "3,2:T:one", "f"),
    Case("mint.cumprod(x, 1)", "2,4:T:one", "fI"),
    Case("ops.cummax(x, 1)", "2,6", "fi"),
    Case("ops.Cummax(0)(x)", "5,2", "f"),
    Case("ops.cummin(x, 1)", "2,6", "fi"),
    Case("mint.cummax(x, 1)", "2,6", "fI"),
    Case("ops.logcumsumexp(x, 1)", "2,4", "f"),
    Case("mint.diff(x)", "2,5", "fI"),
    Case("ops.NthElement()(x, 2)", "2,6", "f"),
    Case("ops.trapz(x)", "2,5", "1"),
    *(Case(call, "4,6", "f", reference=reference) for call, reference in WITHOUT_KERNEL.items()),
]
