"""Normalisation layers."""

from recorded import Case

BATCH_NORM = (
    "(x - m.running_mean.reshape(SHAPE)) / ops.sqrt(m.running_var.reshape(SHAPE) + 1e-5) "
    "* m.weight.reshape(SHAPE) + m.bias.reshape(SHAPE)"
)


def instance_norm(axes: str, shape: str) -> str:
    """What nn.InstanceNorm computes over the axes."""
    gap = f"(x - x.mean({axes}, True))"
    scaled = f"{gap} * ops.rsqrt(({gap} ** 2).mean({axes}, True) + 1e-5)"
    return f"{scaled} * m.gamma.reshape({shape}) + m.beta.reshape({shape})"


CASES = [
    Case("ops.BatchNorm(is_training=False)(x, y, z, w, v)[0]", "2,3,2,2 3 3 3 3:T:pos", "f"),
    Case(
        "ops.BatchNorm(is_training=False)(x, y, z, w, v)[0]",
        "2,3,2,2 3:float32 3:float32 3:float32 3:float32:pos",
        "f",
    ),
    Case(
        "ops.BatchNorm(is_training=False, epsilon=1e-3)(x, y, z, w, v)[0]", "4,3 3 3 3 3:T:pos", "f"
    ),
    Case(
        "ops.BatchNorm(is_training=False, data_format='NHWC')(x, y, z, w, v)[0]",
        "2,2,2,3 3 3 3 3:T:pos",
        "1",
    ),
    Case(
        "mint.nn.functional.batch_norm(x, w, v, y, z)",
        "2,3,2,2 3 3 3 3:T:pos",
        "f",
        reference="ops.BatchNorm(is_training=False)(x, y, z, w, v)[0]",
    ),
    Case(
        "mint.nn.functional.batch_norm(x, y, z)",
        "2,3,2 3 3:T:pos",
        "f",
        reference="(x - y.reshape((1, 3, 1))) / ops.sqrt(z.reshape((1, 3, 1)) + 1e-5)",
    ),
    Case("ops.batch_norm(x, w, v, y, z)", "2,3,2,2 3 3 3 3:T:pos", "f"),
    Case("ops.LayerNorm(1, 1)(x, y, z)", "2,4 4 4", "f"),
    Case("ops.LayerNorm(-1, -1, 1e-5)(x, y, z)[0]", "2,3,4 4 4", "f"),
    Case("ops.LayerNorm(1, 1, 1e-5)(x, y, z)[0]", "2,3,4 3,4 3,4", "f"),
    Case("ops.LayerNorm(1, 2)(x, y, z)[0]", "2,3,4 4 4", "f"),
    Case(
        "mint.nn.functional.layer_norm(x, (4,), y, z)",
        "2,3,4 4 4",
        "f",
        reference="ops.LayerNorm(-1, -1, 1e-5)(x, y, z)[0]",
    ),
    Case(
        "mint.nn.functional.layer_norm(x, (4,))",
        "2,3,4",
        "f",
        reference=(
            "(x - x.mean(-1, True)) * ops.rsqrt(((x - x.mean(-1, True)) ** 2).mean(-1, "
            "True) + 1e-5)"
        ),
    ),
    Case(
        "mint.nn.functional.layer_norm(x, (3, 4), y, z, 1e-3)",
        "2,3,4 3,4 3,4",
        "f",
        reference="ops.LayerNorm(1, 1, 1e-3)(x, y, z)[0]",
    ),
    Case("ops.group_norm(x, 2, y, z)", "2,4,3 4 4", "f"),
    Case("mint.nn.functional.group_norm(x, 2, y, z)", "2,4,2,2 4 4", "f"),
    Case("mint.nn.functional.group_norm(x, 2)", "2,4,2,2", "f"),
    Case(
        "ops.rms_norm(x, y, 1e-5)",
        "2,3,4 4",
        "f",
        reference="(x * ops.rsqrt((x * x).mean(-1, True) + 1e-5) * y, "
        "ops.rsqrt((x * x).mean(-1, True) + 1e-5).astype(ms.float32))",
    ),
    Case(
        "ops.rms_norm(x, y)[0]",
        "2,3,4 3,4",
        "f",
        reference="x * ops.rsqrt((x * x).mean((1, 2), True) + 1e-6) * y",
    ),
    Case(
        "ops.add_rms_norm(x, y, z, 1e-5)[0]",
        "2,4 2,4 4",
        "f",
        reference="(x + y) * ops.rsqrt(((x + y) ** 2).mean(-1, True) + 1e-5) * z",
    ),
    Case(
        "ops.add_layer_norm(x, y, z, w, 1e-5)[0]",
        "2,4 2,4 4 4",
        "f",
        reference="ops.LayerNorm(-1, -1, 1e-5)(x + y, z, w)[0]",
    ),
    Case("ops.LRN(2, 1.0, 0.5, 0.75)(x)", "1,6,2,2", "f"),
    Case("ops.lrn(x)", "1,6,2,2", "f"),
    Case("m(x)", "2,3,4", "f", "nn.LayerNorm((4,))"),
    Case("m(x)", "2,3,4", "1", "nn.LayerNorm((3, 4), 1, 1, epsilon=1e-3)"),
    Case("m(x)", "2,4,2,2", "f", "nn.GroupNorm(2, 4)"),
    Case("m(x)", "2,3,2,2", "1", "nn.BatchNorm2d(3)"),
    Case("m(x)", "4,3", "1", "nn.BatchNorm1d(3)"),
    Case("m(x)", "2,3,4", "1", "nn.BatchNorm1d(3)"),
    Case("m(x)", "2,3,2,2,2", "1", "nn.BatchNorm3d(3)"),
    Case("m(x)", "2,3,4", "1", "nn.InstanceNorm1d(3)", reference=instance_norm("-1", "(1, 3, 1)")),
    Case(
        "m(x)",
        "2,3,2,2",
        "1",
        "nn.InstanceNorm2d(3)",
        reference=instance_norm("(2, 3)", "(1, 3, 1, 1)"),
    ),
    Case(
        "m(x)",
        "2,3,2,2,2",
        "1",
        "nn.InstanceNorm3d(3)",
        reference=instance_norm("(2, 3, 4)", "(1, 3, 1, 1, 1)"),
    ),
    Case("m(x)", "2,3,2,2", "1", "nn.SyncBatchNorm(3)"),
    Case(
        "m(x)",
        "2,3,2,2",
        "f",
        "mint.nn.BatchNorm2d(3)",
        reference=BATCH_NORM.replace("SHAPE", "(1, 3, 1, 1)"),
    ),
    Case(
        "m(x)",
        "2,3",
        "f",
        "mint.nn.BatchNorm1d(3)",
        reference=BATCH_NORM.replace("SHAPE", "(1, 3)"),
    ),
    Case(
        "m(x)",
        "2,3,2,2,2",
        "1",
        "mint.nn.BatchNorm3d(3)",
        reference=BATCH_NORM.replace("SHAPE", "(1, 3, 1, 1, 1)"),
    ),
    Case(
        "m(x)",
        "2,3,4",
        "f",
        "mint.nn.LayerNorm((4,), dtype={T})",
        reference="ops.LayerNorm(-1, -1, 1e-5)(x, m.weight, m.bias)[0]",
    ),
    Case("m(x)", "2,4,3", "f", "mint.nn.GroupNorm(2, 4, dtype={T})"),
    Case("m(x)", "2,3,4", "1", "nn.Norm(axis=1)"),
    Case("x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + 1e-6) * y", "2,3,4 4", "f"),
    Case(
        "ops.cast(x.float() * ops.rsqrt(ops.mean(ops.square(x.float()), -1, True) + 1e-6), {T}) "
        "* y",
        "2,3,4 4",
        "f",
    ),
]
