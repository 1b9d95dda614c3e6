"""Convolutions and windows."""

from recorded import Case

BIAS = " + m.bias.reshape((1, -1, 1, 1))"
# What MindSpore has no kernel for on a CPU, and the same in other words.
CELLS = {
    "mint.nn.Conv2d(2, 4, 3)": ("1,2,5,5", "ops.Conv2D(4, 3)(x, m.weight)" + BIAS),
    "mint.nn.Conv2d(2, 4, 3, padding='same')": (
        "1,2,5,5",
        "ops.Conv2D(4, 3, pad_mode='same')(x, m.weight)" + BIAS,
    ),
    "mint.nn.Conv2d(2, 4, 3, padding=1, padding_mode='reflect')": (
        "1,2,5,5",
        "ops.Conv2D(4, 3)(ops.pad(x, (1, 1, 1, 1), mode='reflect'), m.weight)" + BIAS,
    ),
    "mint.nn.Conv1d(2, 4, 3)": (
        "1,2,7",
        "ops.Conv2D(4, (1, 3))(x.expand_dims(2), "
        "m.weight.expand_dims(2)).squeeze(2) + m.bias.reshape((1, -1, 1))",
    ),
    "mint.nn.Conv3d(2, 4, 3)": (
        "1,2,3,3,3",
        "ops.Conv3D(4, 3)(x, m.weight) + m.bias.reshape((1, -1, 1, 1, 1))",
    ),
    "mint.nn.ConvTranspose2d(2, 4, 3, 2)": (
        "1,2,3,3",
        "ops.Conv2DTranspose(4, 3, stride=2)(x, m.weight, (1, 4, 7, 7))" + BIAS,
    ),
    "mint.nn.Unfold(2)": ("1,2,4,4", "ops.unfold(x, 2).reshape((1, 8, -1))"),
    "mint.nn.Fold((4, 4), 2)": (
        "1,8,9",
        "ops.fold(x.reshape((1, 2, 4, 9)), Tensor([4, 4], ms.int32), 2)",
    ),
}

CASES = [
    *(
        Case("m(x)", shape, "1", cell, reference=reference)
        for cell, (shape, reference) in CELLS.items()
    ),
    Case("ops.Conv2D(4, 3)(x, y)", "1,2,5,5 4,2,3,3", "f"),
    Case("ops.Conv2D(4, 3, pad_mode='same', stride=2)(x, y)", "1,2,5,6 4,2,3,3", "f"),
    Case("ops.Conv2D(4, 3, pad_mode='same', dilation=2)(x, y)", "1,2,6,6 4,2,3,3", "1"),
    Case(
        "ops.Conv2D(4, (3, 2), pad_mode='pad', pad=(1, 0, 2, 1), stride=(2, 1))(x, y)",
        "1,2,5,5 4,2,3,2",
        "f",
    ),
    Case("ops.Conv2D(4, 3, group=2)(x, y)", "1,4,5,5 4,2,3,3", "f"),
    Case("ops.Conv2D(4, 3, data_format='NHWC')(x, y)", "1,5,5,2 4,3,3,2", "1"),
    Case("ops.conv2d(x, y, z, stride=2, padding=1, pad_mode='pad')", "1,2,5,5 4,2,3,3 4", "f"),
    Case(
        "mint.nn.functional.conv2d(x, y, z, 2, 1)",
        "1,2,5,5 4,2,3,3 4",
        "f",
        reference=(
            "ops.Conv2D(4, 3, pad_mode='pad', pad=1, stride=2)(x, y) + z.reshape((1, -1, 1, 1))"
        ),
    ),
    Case(
        "mint.nn.functional.conv2d(x, y, padding='same')",
        "1,2,5,5 4,2,3,3",
        "1",
        dynamic=False,
        reference="ops.Conv2D(4, 3, pad_mode='same')(x, y)",
    ),
    Case(
        "mint.nn.functional.conv2d(x, y, None, 1, 'valid', 1, 2)",
        "1,4,5,5 4,2,3,3",
        "1",
        reference="ops.Conv2D(4, 3, group=2)(x, y)",
    ),
    Case(
        "mint.nn.functional.conv1d(x, y, z, 2, 1)",
        "1,2,7 4,2,3 4",
        "1",
        reference="ops.Conv2D(4, (1, 3), pad_mode='pad', pad=(0, 0, 1, 1), stride=(1, "
        "2))(x.expand_dims(2), "
        "y.expand_dims(2)).squeeze(2) + z.reshape((1, -1, 1))",
    ),
    Case(
        "mint.nn.functional.conv3d(x, y, z, 1, 1)",
        "1,2,3,3,3 4,2,3,3,3 4",
        "1",
        reference="ops.Conv3D(4, 3, pad_mode='pad', pad=1)(x, y) + z.reshape((1, -1, 1, 1, 1))",
    ),
    Case(
        "mint.nn.functional.conv_transpose2d(x, y, z, 2, 1)",
        "1,2,3,3 2,4,3,3 4",
        "1",
        reference="ops.Conv2DTranspose(4, 3, pad_mode='pad', pad=1, stride=2)(x, y, (1, 4, 5, 5)) "
        "+ z.reshape((1, -1, 1, 1))",
    ),
    Case("ops.Conv3D(2, 2)(x, y)", "1,2,3,3,3 2,2,2,2,2", "f"),
    Case("ops.Conv3D(2, 2, pad_mode='same')(x, y)", "1,2,3,3,3 2,2,2,2,2", "1"),
    Case("ops.Conv2DTranspose(2, 3, stride=2)(x, y, (1, 2, 7, 7))", "1,4,3,3 4,2,3,3", "1"),
    Case("ops.Conv3DTranspose(4, 2, 2)(x, y)", "1,4,2,2,2 4,2,2,2,2", "1"),
    Case(
        "ops.conv_transpose2d(x, y, z, 2, 1)",
        "1,2,3,3 2,4,3,3 4",
        "1",
        reference="ops.Conv2DTranspose(4, 3, pad_mode='pad', pad=1, stride=2)(x, y, (1, 4, 5, 5)) "
        "+ z.reshape((1, -1, 1, 1))",
    ),
    Case("ops.conv1d(x, y)", "1,2,7 4,2,3", "1"),
    Case("ops.conv3d(x, y)", "1,2,3,3,3 2,2,2,2,2", "1"),
    *(
        Case("m(x)", shape, "1", cell)
        for shape, cell in (
            ("1,2,5,5", "nn.Conv2d(2, 4, 3, has_bias=True)"),
            ("1,2,5,5", "nn.Conv2d(2, 4, 3, pad_mode='same', stride=2)"),
            ("1,2,5,5", "nn.Conv2d(2, 4, 3, pad_mode='pad', padding=1, dilation=2, has_bias=True)"),
            ("1,4,5,5", "nn.Conv2d(4, 4, 3, group=4)"),
            ("1,2,7", "nn.Conv1d(2, 4, 3, has_bias=True)"),
            ("1,2,7", "nn.Conv1d(2, 4, 3, pad_mode='pad', padding=1, stride=2)"),
            ("1,2,3,3,3", "nn.Conv3d(2, 2, 2, pad_mode='same', has_bias=True)"),
            ("1,2,3,3", "nn.Conv2dTranspose(2, 4, 3, stride=2, has_bias=True)"),
            (
                "1,2,3,3",
                "nn.Conv2dTranspose(2, 4, 3, pad_mode='pad', padding=1, stride=2, "
                "output_padding=1)",
            ),
            ("1,2,3,3", "nn.Conv2dTranspose(2, 4, 3, pad_mode='valid')"),
            ("1,2,5", "nn.Conv1dTranspose(2, 4, 3, stride=2)"),
            ("1,2,3,3,3", "nn.Conv3dTranspose(2, 2, 2)"),
            ("1,5,5,2", "nn.Conv2d(2, 4, 3, data_format='NHWC')"),
            ("1,2,5,5", "nn.Conv2dBnAct(2, 4, 3, has_bn=True, activation='relu')"),
        )
    ),
    Case("ops.Im2Col(ksizes=3)(x)", "1,2,4,4", "f"),
    Case("ops.unfold(x, 2, stride=2)", "1,2,4,4", "f"),
    Case(
        "mint.nn.functional.unfold(x, 2, 1, 1, 2)",
        "1,2,4,4",
        "f",
        reference="ops.unfold(x, 2, 1, 1, 2).reshape((1, 8, -1))",
    ),
    Case(
        "mint.nn.functional.fold(x, (4, 4), 2, 1, 0, 2)",
        "1,8,4",
        "f",
        reference="ops.fold(x.reshape((1, 2, 4, 4)), Tensor([4, 4], ms.int32), 2, 1, 0, 2)",
    ),
    Case("ops.fold(x, Tensor([4, 4], ms.int32), 2, 1, 0, 2)", "1,2,4,4", "f"),
    Case(
        "ops.deformable_conv2d(x, y, z, (2, 2), (1, 1, 1, 1), (0, 0, 0, 0))",
        "1,1,3,3 1,1,2,2 1,12,2,2",
        "1",
    ),
]
