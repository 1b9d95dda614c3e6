"""Primitives that MindSpore's functions seldom use, by their own names.

MindSpore has no kernels for most of them on a CPU: each comes with the same in other words.
"""

from recorded import Case

PROMPT = "ops.softmax(ops.matmul(x, y.swapaxes(-1, -2)) * 0.5, -1)"
CASES = [
    *(
        Case(call, "2,3", "f", reference=reference)
        for call, reference in {
            "ag.GreaterEqualScalar()(x, 0.5)": "x >= 0.5",
            "ag.MishExt()(x)": "x * ops.tanh(ops.log(1 + ops.exp(x)))",
            "ag.Copy()(x)": "x",
            "ag.SeLUExt()(x)": "ops.selu(x)",
            "ops.operations.nn_ops.ReLUV3()(x)": "ops.relu(x)",
            "x + ag.NewEmpty()(x, (2, 3), None, None) * 0": "x",
            "x + ag.Empty()((2, 3), {T}) * 0": "x",
            "ag.FillTensor()((2, 3), x[0, 0])": "x * 0 + x[0, 0]",
            "ops.Fill()({T}, x.shape, 2.5)": "x * 0 + 2.5",
            "ag.LinSpaceExt()(1, 4, 3, {T}) + x": "x + Tensor([1, 2.5, 4], {T})",
            "ag.TraceV2()(ops.matmul(x, x.T), 1, 0, 1, {T})": "ops.matmul(x, x.T)[0, 1]",
        }.items()
    ),
    Case("ag.GreaterEqualScalar()(x, 2)", "2,3", "i", reference="x >= 2"),
    Case("ag.Copy()(x)", "2,3", "ib", reference="x * 1 if x.dtype != ms.bool_ else x"),
    Case("ag.Chunk()(x, 2, 1)", "2,3", "fib", dynamic=False, reference="(x[:, :2], x[:, 2:])"),
    Case("ag.ExpandAs()(x, y)", "1,3 2,3", "fi", reference="ops.tile(x, (2, 1))"),
    Case(
        "ops.SparseGatherV2()(x, y, 1)", "2,3 2:int32:0..2", "fi", reference="ops.gather(x, y, 1)"
    ),
    Case(
        "ops.SparseGatherV2()(x, y, 0)", "3,2 2,2:int64:0..2", "f", reference="ops.gather(x, y, 0)"
    ),
    Case(
        "ag.IndexFillTensor()(x, 1, y, z)",
        "2,3 2:int64:0..0 :T",
        "f",
        reference="ops.concat((x[:, :1] * 0 + z, x[:, 1:]), 1)",
    ),
    Case(
        "ops.BatchToSpaceNDV2()(x, Tensor([2, 2]), Tensor([[0, 1], [1, 0]]))",
        "4,2,2,2",
        "f",
        dynamic=False,
        reference="ops.batch_to_space_nd(x, [2, 2], [[0, 1], [1, 0]])",
    ),
    Case(
        "ops.DepthwiseConv2dNative(1, 3, pad_mode='same')(x, y)",
        "1,2,5,5 1,2,3,3",
        "f",
        dynamic=False,
        reference="ops.Conv2D(2, 3, pad_mode='same', group=2)(x, y.swapaxes(0, 1))",
    ),
    Case(
        "ag.LayerNormV3(1, 1)(x, y, z)",
        "2,5 5 5",
        "f",
        reference="ops.LayerNorm(1, 1, 1e-7)(x, y, z)",
    ),
    Case("ops.TriuIndices(3, 4, 1)()", "1", "1", dynamic=False),
    Case("ops.TriuIndices(4, 3, -1, ms.int64)()", "1", "1", dynamic=False),
    Case(
        "ag.IncreFlashAttention(2, 'BNSD', 0.5, 2)(x, [y], [z], None, None, None)",
        "1,2,1,8 1,2,4,8 1,2,4,8",
        "h",
        reference=f"ops.matmul({PROMPT}, z)",
    ),
    Case(
        "ops.incre_flash_attention(x, [y], [z], num_heads=2, scale_value=0.5)",
        "2,1,8 2,4,8 2,4,8",
        "h",
        reference="ops.concat([ops.matmul(ops.softmax(ops.matmul(x[..., i:i + 4], y[..., i:i + "
        "4].swapaxes(-1, -2))"
        " * 0.5, -1), z[..., i:i + 4]) for i in (0, 4)], -1)",
    ),
    Case(
        "ops.incre_flash_attention(x, [y], [z], w, num_heads=1, scale_value=0.5)",
        "1,1,8 1,4,8 1,4,8 1,1,1,4:bool",
        "h",
        reference="ops.matmul(ops.softmax(ops.where(w[0], x[:, :, :1] * 0 - 30000,"
        " ops.matmul(x, y.swapaxes(-1, -2)) * 0.5), -1), z)",
    ),
    Case(
        "ag.PromptFlashAttention(2, 0.5, input_layout='BNSD')(x, y, z, None)",
        "1,2,4,8 1,2,5,8 1,2,5,8",
        "h",
        reference=f"ops.matmul({PROMPT}, z)",
    ),
    Case(
        "ops.prompt_flash_attention(x, y, z, w, num_heads=1, scale_value=0.5, input_layout='BSH')",
        "1,4,8 1,5,8 1,5,8 4,5:bool",
        "h",
        reference="ops.matmul(ops.softmax(ops.where(w, x[:, :, :1] * 0 - 30000,"
        " ops.matmul(x, y.swapaxes(-1, -2)) * 0.5), -1), z)",
    ),
]
