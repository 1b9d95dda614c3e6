"""Primitives that the functions of ops and mint hide behind others, by their own names.

MindSpore has no kernels for most of them on a CPU: each comes with the same in other words.
"""

from recorded import Case

PLANES = "1,2,4,5"
MIRRORED = "ops.concat((x[..., 1:2], x, x[..., -2:-1]), -1)"
REPEATED = "ops.concat((x[..., :1], x, x[..., -1:]), -1)"
CASES = [
    *(
        Case(call, "2,3 2,3:T:pos", "f", reference=reference)
        for call, reference in {
            "ag.FmodTensor()(x, y)": "ops.fmod(x, y)",
            "ag.RemainderTensorTensor()(x, y)": "ops.floor_mod(x, y)",
            "ag.RemainderScalarTensor()(7, y)": "ops.floor_mod(y * 0 + 7, y)",
            "ag.DivMod()(x, y, 'floor')": "ops.floor(x / y)",
            "ag.DivMod()(x, y, 'trunc')": "ops.trunc(x / y)",
            "ag.DivMods()(x, 3, 'floor')": "ops.floor(x / 3)",
            "ag.FloorDivScalar()(x, 3)": "ops.floor(x / 3)",
            "ag.LerpScalar()(x, y, 0.25)": "x + 0.25 * (y - x)",
            "ag.AddScalar()(x, 2, 3)": "x + 6",
            "ag.SubScalar()(x, 2, 3)": "x - 6",
            "ag.Vdot()(x[0], y[0])": "(x[0] * y[0]).sum()",
            "ag.XLogYScalarSelf()(2.0, y)": "2 * ops.log(y)",
            "ag.XLogYScalarOther()(x, 2.0)": "x * 0.6931471805599453",
            "ag.PowScalarTensor()(2.0, x)": "ops.pow(2.0, x)",
            "ag.PowTensorScalar()(y, 0.5)": "ops.sqrt(y)",
            "ag.MaskedFillScalar()(x, y > 1, 2.0)": "ops.where(y > 1, x * 0 + 2, x)",
            "ag.TypeAs()(x, y)": "x",
            "ag.ClampTensor()(x, y * 0, y)": "ops.clamp(x, x * 0, y)",
            "ag.FullLike()(x, 2.5)": "x * 0 + 2.5",
            "ag.LogSumExp()(x, (1,), True)": "ops.logsumexp(x, 1, True)",
            "ag.Norm()(x, 2.0, (1,), False)": "ops.norm(x, 2, 1)",
            "ag.SumExt()(x, (1,), True)": "x.sum(1, keepdims=True)",
            "ag.ProdExt()(y, 1)": "ops.prod(y, 1)",
            "ag.NewZeros()(x, (2, 2))": "x[:, :2] * 0",
            "ag.NewOnes()(x, (2, 2))": "x[:, :2] * 0 + 1",
            "ag.NewFull()(x, (2, 2), 3.0)": "x[:, :2] * 0 + 3",
            "ag.Clone()(x)": "x",
            "ag.View()(x, (3, 2))": "x.reshape((3, 2))",
            "ag.Repeat()(x, (2, 1))": "ops.tile(x, (2, 1))",
            "ag.SliceExt()(x, 1, 0, 3, 2)": "x[:, 0:3:2]",
            "ag.SliceExtView()(x, 1, 1, 3, 1)": "x[:, 1:3]",
            "ag.SplitTensor()(x, 2, 1)": "(x[:, :2], x[:, 2:])",
            "ag.SplitWithSize()(x, (1, 2), 1)": "(x[:, :1], x[:, 1:])",
            "ag.SplitTensorView()(x, 2, 1)": "(x[:, :2], x[:, 2:])",
            "ag.NonZeroExt()(x > 0)[1]": "ops.NonZero()(x > 0)[:, 1]",
            "ag.SelectV2()(x > y, x, y)": "ops.where(x > y, x, y)",
            "ag.IndexFillScalar()(x, 1, Tensor([0, 2]), 5.0)": (
                "ops.concat((x[:, :1] * 0 + 5, x[:, 1:2], x[:, 2:] * 0 + 5), 1)"
            ),
            "ag.Addmm()(x[:, :2], x, y.T, 2, 0.5)": "2 * x[:, :2] + 0.5 * ops.matmul(x, y.T)",
            "ag.StdMean()(x, 1, 1, True)": (
                "(ops.sqrt(((x - x.mean(1, True)) ** 2).sum(1, "
                "keepdims=True) / 2), x.mean(1, True))"
            ),
            "ag.VarMean()(x, 1, 1, True)": (
                "(((x - x.mean(1, True)) ** 2).sum(1, keepdims=True) / 2, x.mean(1, True))"
            ),
            "ag.Std()(x, 1, 0, False)": "ops.sqrt(((x - x.mean(1, True)) ** 2).mean(1))",
            "ag.Var()(x, 1, 0, False)": "((x - x.mean(1, True)) ** 2).mean(1)",
            "ag.CumminExt()(x, 1)": "(ops.cummin(x, 1)[0], ops.cummin(x, 1)[1].astype(ms.int64))",
            "ag.SortExt()(x, 1, True)": (
                "(ops.sort(x, 1, True)[0], ops.sort(x, 1, True)[1].astype(ms.int64))"
            ),
            "ag.TopkExt()(x, 2, 1)": "(ops.topk(x, 2)[0], ops.topk(x, 2)[1].astype(ms.int64))",
            "ag.NpuGelu()(x, 'none')": "0.5 * x * (1 + ops.erf(x / 2 ** 0.5))",
            "ops.Identity()(x)": "x",
            "ops.FastGelu()(x)": "ops.fast_gelu(x)",
            "ops.Pack(1)((x, y))": "ops.Stack(1)((x, y))",
            "ops.SplitV((1, -1), 1, 2)(x)": "(x[:, :1], x[:, 1:])",
            "ops.TensorAdd()(x, y)": "x + y",
            "ops.StopGradient()(x)": "x",
            "ops.IdentityN()((x, y))": "(x, y)",
            "ops.EuclideanNorm(True)(x, Tensor([1]))": "ops.norm(x, 2, 1, True)",
        }.items()
    ),
    *(
        Case(call, "1,3,4", "f", reference=reference)
        for call, reference in {
            "ag.ReflectionPad1D()(x, (1, 1))": MIRRORED,
            "ag.ReplicationPad1D()(x, (1, 1))": REPEATED,
            "ag.AvgPool1D()(x, 2, 2)": "(x[..., ::2] + x[..., 1::2]) / 2",
            "ag.AdaptiveAvgPool1D()(x, 2)": "ops.adaptive_avg_pool1d(x, 2)",
            "ag.UpsampleNearest1D()(x, (8,))": "ops.repeat_elements(x, 2, 2)",
            "ag.UpsampleLinear1D()(x, (7,), None, True)": "ops.ResizeLinear1D('align_corners')(x, (7,))",  # noqa: E501
            "mint.nn.functional.pad(x, (1, 1), mode='reflect')": MIRRORED,
            "mint.nn.functional.pad(x, (1, 1), mode='replicate')": REPEATED,
        }.items()
    ),
    *(
        Case(call, PLANES, "f", reference=reference)
        for call, reference in {
            "ag.ReflectionPad2D()(x, (1, 1, 0, 0))": MIRRORED,
            "ag.ReplicationPad2D()(x, (1, 1, 0, 0))": REPEATED,
            "mint.nn.functional.pad(x, (1, 1, 0, 0), mode='reflect')": MIRRORED,
            "mint.nn.functional.pad(x, (1, 1, 0, 0), mode='replicate')": REPEATED,
            "ag.MaxPoolWithIndices(2, 2)(x)[0]": "ops.MaxPool(2, 2)(x)",
            "ag.AvgPool2D()(x, 2, 2)": "ops.AvgPool(2, 2)(x)",
            "ag.UpsampleNearest2D()(x, (8, 10))": (
                "ops.ResizeNearestNeighborV2(False, False)(x, (8, 10))"
            ),
            (
                "ag.UpsampleBilinear2D()(x, (7, 8), None, False)"
            ): "ops.ResizeBilinearV2(False, True)(x, (7, 8))",
            (
                "ag.PixelShuffle()(ops.concat((x, x), 1), 2)"
            ): "ops.pixel_shuffle(ops.concat((x, x), 1), 2)",
        }.items()
    ),
    *(
        Case(call, "1,1,3,3,4", "f", reference=reference)
        for call, reference in {
            "ag.ReflectionPad3D()(x, (1, 1, 0, 0, 0, 0))": MIRRORED,
            "ag.ReplicationPad3D()(x, (1, 1, 0, 0, 0, 0))": REPEATED,
            "ag.AvgPool3DExt()(x, 2, 1)": "ops.AvgPool3D(2, 1)(x)",
            "ag.AdaptiveAvgPool3DExt()(x, (1, 2, 2))": "ops.AdaptiveAvgPool3D((1, 2, 2))(x)",
        }.items()
    ),
    Case("ops.Unpack(0)(x)", "2,3", "f", dynamic=False),
    Case(
        "ag.Conv1DExt()(x, y, None, 1, 0, 1, 1)",
        "1,2,7 4,2,3",
        "f",
        reference="ops.Conv2D(4, (1, 3))(x.expand_dims(2), y.expand_dims(2)).squeeze(2)",
    ),
    Case(
        "ag.Conv2DExt()(x, y, z, 2, 1, 1, 1)",
        "1,2,5,5 4,2,3,3 4",
        "f",
        reference=(
            "ops.Conv2D(4, 3, pad_mode='pad', pad=1, stride=2)(x, y) + z.reshape((1, -1, 1, 1))"
        ),
    ),
    Case(
        "ag.Conv2DPadding()(x, y, None, 1, 'same', 1, 1)",
        "1,2,5,5 4,2,3,3",
        "f",
        dynamic=False,
        reference="ops.Conv2D(4, 3, pad_mode='same')(x, y)",
    ),
    Case(
        "ag.Conv3DExt()(x, y, None, 1, 0, 1, 1)",
        "1,2,3,3,3 2,2,2,2,2",
        "1",
        reference="ops.Conv3D(2, 2)(x, y)",
    ),
    Case(
        "ag.Convolution()(x, y, None, 1, 0, 1, False, 0, 1)",
        "1,2,5,5 4,2,3,3",
        "1",
        reference="ops.Conv2D(4, 3)(x, y)",
    ),
    Case(
        "ag.Convolution()(x, y, None, 2, 1, 1, True, 0, 1)",
        "1,2,3,3 2,4,3,3",
        "1",
        reference="ops.Conv2DTranspose(4, 3, pad_mode='pad', pad=1, stride=2)(x, y, (1, 4, 5, 5))",
    ),
    Case(
        "ag.Baddbmm()(x, y, z, 0.5, 2)",
        "2,2,4 2,2,3 2,3,4",
        "f",
        reference="0.5 * x + 2 * ops.matmul(y, z)",
    ),
    Case("ag.BatchMatMulExt()(x, y)", "2,2,3 2,3,4", "f", reference="ops.matmul(x, y)"),
]
