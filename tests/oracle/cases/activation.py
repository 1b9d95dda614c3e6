"""Activations and softmax."""

from recorded import Case

PLAIN = ["ReLU", "ReLU6", "GeLU", "HSigmoid", "HSwish", "HShrink", "SoftShrink", "SeLU", "Mish", "Softplus", "Softsign",
         "Sigmoid", "Tanh", "FastGeLU", "Elu", "CeLU", "Logit"]
MINT = ["relu", "silu", "hardswish", "hardsigmoid", "hardshrink", "softshrink", "softplus", "sigmoid", "tanh", "glu"]
WITHOUT_KERNEL = {
    "gelu(x)": "0.5 * x * (1 + ops.erf(x / 2 ** 0.5))", "gelu(x, approximate='tanh')": "ops.gelu(x, 'tanh')",
    "elu(x)": "ops.Elu(1.0)(x)", "elu(x, 0.5)": "ops.where(x > 0, x, 0.5 * (ops.exp(x) - 1))", "selu(x)": "ops.selu(x)",
    "mish(x)": "ops.mish(x)", "hardtanh(x)": "ops.clamp(x, -1.0, 1.0)", "relu6(x)": "ops.relu6(x)",
    "hardtanh(x, -0.5, 0.75)": "ops.clamp(x, -0.5, 0.75)", "logsigmoid(x)": "ops.log(ops.sigmoid(x))",
    "leaky_relu(x)": "ops.leaky_relu(x, 0.01)", "leaky_relu(x, 0.3)": "ops.leaky_relu(x, 0.3)",
    "log_softmax(x, dim=1)": "ops.log_softmax(x, 1)", "log_softmax(x, dim=0)": "ops.log_softmax(x, 0)",
    "log_softmax(x, dim=0, dtype=ms.float32)": "ops.log_softmax(x.astype(ms.float32), 0)",
    "threshold(x, 0.5, 0.25)": "ops.where(x > 0.5, x, 0.25)",
}
OPS = ["celu", "fast_gelu", "gelu", "hardtanh", "tanhshrink", "softsign", "softmin", "logsigmoid", "leaky_relu",
       "rrelu", "silu", "selu", "elu", "hardshrink", "softshrink", "relu6", "log_softmax", "softmax", "mish"]

CASES = [
    *(Case(f"ops.{name}()(x)", "2,4", "fi") for name in PLAIN),
    *(Case(f"mint.nn.functional.{name}(x)", "2,4", "fi") for name in MINT),
    *(Case(f"mint.nn.functional.{call}", "2,4", "f", reference=same) for call, same in WITHOUT_KERNEL.items()),
    *(Case(f"ops.{name}(x)", "2,4", "f") for name in OPS),
    Case("ops.swiglu(x, 1)", "2,4", "f", reference="ops.silu(x[:, :2]) * x[:, 2:]"),
    Case("ops.swiglu(x, 0)", "4,2", "f", reference="ops.silu(x[:2]) * x[2:]"),
    Case("ops.HShrink(0.25)(x)", "2,4", "f"),
    Case("ops.SoftShrink(0.25)(x)", "2,4", "f"),
    Case("ops.Elu(1.0)(x)", "8:T:special", "f"),
    Case("ops.elu(x, 0.5)", "2,4", "f"),
    Case("ops.celu(x, 2.0)", "2,4", "f"),
    Case("ops.leaky_relu(x, 0.3)", "2,4", "f"),
    Case("mint.nn.functional.softplus(x, beta=2, threshold=1)", "2,4", "f"),
    Case("ops.GLU(1)(x)", "2,4", "f"),
    Case("ops.PReLU()(x, y)", "2,3,2 3", "f"),
    Case("ops.PReLU()(x, y)", "2,3 1", "f"),
    Case("ops.PReLU()(x, y)", "2,3,2,2 3", "f"),
    Case("mint.nn.functional.prelu(x, y)", "2,3,2 3", "f"),
    Case("ops.Softmax(-1)(x)", "2,4", "fi"),
    Case("ops.Softmax((0,))(x)", "2,4", "f"),
    Case("ops.Softmax(1)(x)", "2,3,4", "f"),
    Case("ops.LogSoftmax(-1)(x)", "2,4", "fi"),
    Case("ops.LogSoftmax(0)(x)", "2,4", "f"),
    Case("ops.softmax(x, axis=0, dtype=ms.float32)", "2,4", "f"),
    Case("mint.nn.functional.softmax(x, dim=1)", "2,4", "fI"),
    Case("mint.softmax(x, 0)", "2,4", "f"),
    *(Case("m(x)", "2,4,4", "f", cell) for cell in (
        "nn.GELU()", "nn.GELU(False)", "nn.LeakyReLU(0.2)", "nn.ELU()", "nn.CELU(1.5)", "nn.SiLU()", "nn.Softmax2d()",
        "nn.LogSigmoid()", "nn.Hardtanh()", "nn.Softmin()", "nn.Tanhshrink()", "nn.Threshold(0.1, 0.5)",
        "nn.FastGelu()", "nn.HSwish()", "nn.HSigmoid()", "nn.Mish()", "nn.SeLU()", "nn.GLU()", "nn.Softsign()",
        "nn.LogSoftmax()",
        "nn.ReLU6()", "nn.RReLU()", "mint.nn.Hardswish()", "mint.nn.Softshrink()", "mint.nn.PReLU()",
        "mint.nn.Softmax(-1)", "mint.nn.GLU()", "mint.nn.SiLU()", "mint.nn.Hardshrink()", "mint.nn.Hardsigmoid()")),
    Case("m(x)", "2,3,4", "f", "nn.PReLU(3)"),
]
