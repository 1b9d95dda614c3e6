"""Python's numbers, tuples and lists where the sizes that they come from are known at run time
only.

With known dimensions, MindSpore works them out before it exports.
"""

from recorded import Case

SIZE, OTHER = "x.shape[0]", "x.shape[1]"
CASES = [
    *(
        Case(f"({calls}) * x", "2,3", "1")
        for calls in (
            f"ag.ScalarMax()({SIZE}, {OTHER})",
            f"ag.ScalarMin()({SIZE}, {OTHER})",
            f"{SIZE} ** {OTHER}",
            f"ag.ScalarUadd()({SIZE})",
            f"{SIZE} / {OTHER}",
            f"ops.ScalarCast()({OTHER}, ms.float32) / 2",
            f"ops.ScalarCast()({OTHER} / {SIZE}, ms.int64)",
        )
    ),
    *(
        Case(f"({SIZE} {sign} 1, {SIZE} {sign} 2, {SIZE} {sign} {OTHER})", "2,3", "1")
        for sign in (">=", ">", "<=", "!=")
    ),
    Case(f"(ag.ScalarBool()({SIZE}), ag.ScalarBool()({SIZE} - 2))", "2,3", "1"),
    Case(f"(({SIZE} > 1) is not True, ({SIZE} > 2) is not True)", "2,3", "1"),
    *(
        Case(
            f"({kind}(x.shape) {sign} {other}, {kind}(x.shape) {sign} {kind}(y.shape))",
            "2,3 2,4",
            "1",
        )
        for sign in ("<", "<=", ">", ">=", "==")
        for kind, other in (("tuple", "(2, 3)"), ("list", "[2, 3]"))
    ),
    *(
        Case(f"({kind}(x.shape) {sign} {other})", "2,3", "1")
        for sign in ("<", ">=")
        for kind, other in (("tuple", "(2, 3, 1)"), ("list", "[3, 0]"))
    ),
    Case("ops.tuple_setitem(x.shape, -1, 7)", "2,3", "1"),
    Case(
        f"m([{SIZE}, {OTHER}], ms.float32)",
        "2,3",
        "1",
        cell="ops.operations._sequence_ops.ListToTensor()",
    ),
    *(
        Case(
            "m(y)[1] * x",
            "2,3 2:int64:1..5",
            "1",
            cell=f"ops.operations._sequence_ops.TensorTo{kind}()",
            dynamic=False,
        )
        for kind in ("Tuple", "List")
    ),
    *(
        Case(
            f"mint.nn.functional.conv{n}d(x, y, None, 1, 'same')", inputs, "1", reference=reference
        )
        for n, inputs, reference in (
            (
                1,
                "1,2,7 4,2,4",
                "ops.Conv2D(4, (1, 4), pad_mode='same')(x.expand_dims(2), "
                "y.expand_dims(2)).squeeze(2)",
            ),
            (2, "1,2,5,6 4,2,2,3", "ops.Conv2D(4, (2, 3), pad_mode='same')(x, y)"),
            (3, "1,2,3,4,3 2,2,2,3,2", "ops.Conv3D(2, (2, 3, 2), pad_mode='same')(x, y)"),
        )
    ),
    Case(
        "mint.nn.functional.conv2d(x, m, None, 1, 'same', 2)",
        "1,2,5,6",
        "1",
        cell="Parameter(Tensor(np.ones((4, 2, 2, 3)), {T}), name='w')",
        reference="ops.Conv2D(4, (2, 3), pad_mode='pad', pad=(1, 1, 2, 2), dilation=2)(x, m)",
    ),
]
