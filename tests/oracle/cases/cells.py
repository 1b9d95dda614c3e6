"""The cells of mindspore.nn and mindspore.mint.nn that no other family has."""

from recorded import Case


def cells(inputs: str, *names: str, dynamic: bool = True, call: str = "") -> list[Case]:
    """Each of the cells on the same inputs, in float32."""
    arguments = ", ".join("xyzw"[: len(inputs.split())])
    return [Case(call or f"m({arguments})", inputs, "1", name, dynamic) for name in names]


def lent(inputs: str, references: dict[str, str], dynamic: bool = True) -> list[Case]:
    """Cells that MindSpore exports but does not run on a CPU, with the same in other words."""
    arguments = ", ".join("xyzw"[: len(inputs.split())])
    return [
        Case(f"m({arguments})", inputs, "1", name, dynamic, reference)
        for name, reference in references.items()
    ]


LOSSES = ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "MAELoss"]
EYE = "ops.eye(3, 3, ms.float32)"
HINGES = (
    "((ops.relu(1 - ops.gather_elements(x, 1, y)[:, :, None] + x[:, None]) * "
    "(1 - ops.amax(ops.one_hot(y, 4).astype(ms.float32), 1))[:, None]).sum((1, 2)) / 4)"
)
NEAR, FAR, BETWEEN = (f"(ops.abs({one} - {other}) + 1e-6)" for one, other in ("xy", "xz", "yz"))
CASES = [
    *cells(
        "2,4,4",
        "nn.LogSoftmaxExt(1)",
        "nn.PReLUExt()",
        "nn.SoftShrink()",
        "nn.HShrink()",
        "nn.Tanh()",
        "nn.Sigmoid()",
        "nn.ReLU()",
        "nn.Softmax()",
        "nn.Flatten()",
        "nn.Identity()",
        "nn.get_activation('relu6')",
        "nn.get_activation('leakyrelu')",
        "nn.Norm()",
        "nn.LPPool1d(2, 2)",
        "nn.ConstantPad1d((1, 2), 0.5)",
        "nn.Unflatten(1, (2, 2))",
        "nn.Dropout1d(0.5)",
        "nn.DropoutExt(0.5)",
        "nn.Moments(0)",
        "nn.Linear(4, 3)",
        "nn.L1Regularizer(0.1)",
        "nn.TimeDistributed(nn.Dense(4, 3), 1)",
        "nn.ReduceLogSumExp(1)",
        "nn.Triu()",
        "nn.AdaptiveAvgPool1d(2)",
    ),
    *cells(
        "2,4,4",
        "mint.nn.ReLU()",
        "mint.nn.LogSoftmax(1)",
        "mint.nn.Flatten()",
        "mint.nn.Tanh()",
        "mint.nn.Sigmoid()",
        "mint.nn.ConstantPad1d(1, 0.5)",
        "mint.nn.ZeroPad1d((1, 2))",
    ),
    *cells(
        "2,4,4,4",
        "nn.LRN()",
        "nn.Dropout2d(0.5)",
        "nn.Dropout2dExt(0.5)",
        "nn.ImageGradients()",
        "nn.LPPool2d(2, 2)",
        "nn.ChannelShuffle(2)",
        "nn.PixelShuffle(2)",
        "nn.PixelUnshuffle(2)",
        "nn.ConstantPad2d((1, 0, 2, 1), 0.5)",
        "nn.CentralCrop(0.5)",
        "nn.ReplicationPad2d(1)",
        "nn.Conv2dBnAct(4, 2, 3, has_bn=True, activation='relu')",
    ),
    *cells(
        "2,4,4,4",
        "mint.nn.PixelShuffle(2)",
        "mint.nn.ConstantPad2d(1, 0.5)",
        "mint.nn.ZeroPad2d((1, 2, 0, 1))",
        "mint.nn.AdaptiveMaxPool2d(2)",
        "mint.nn.SyncBatchNorm(4)",
        "mint.nn.Dropout2d(0.5)",
    ),
    *cells(
        "1,2,4,4,4",
        "nn.Dropout3d(0.5)",
        "nn.ConstantPad3d(1, 0.5)",
        "nn.ReplicationPad3d(1)",
        "mint.nn.ConstantPad3d((1, 0, 1, 0, 0, 1), 0.5)",
        "mint.nn.ZeroPad3d(1)",
    ),
    *cells("2,4", "nn.DenseBnAct(4, 3, has_bn=True, activation='relu')", "nn.DenseThor(4, 3)"),
    *cells(
        "2,3:int32:0..4",
        "nn.EmbeddingExt(5, 4)",
        "nn.EmbeddingThor(5, 4)",
        "nn.EmbeddingLookupThor(5, 4)",
    ),
    *cells(
        "2,2:int32:0..8 2,2 2,2:int32:0..1",
        *(
            f"nn.MultiFieldEmbeddingLookup(9, 2, 2, operator='{how}')"
            for how in ("SUM", "MAX", "MEAN")
        ),
    ),
    *cells("2,4", "nn.CellDict({'a': nn.Dense(4, 3), 'b': nn.ReLU()})", call="m['b'](m['a'](x))"),
    *cells("1,1,16,16:T:prob 1,1,16,16:T:prob", "nn.SSIM(1.0, 3)", "nn.PSNR()"),
    *cells("1,1,32,32:T:prob 1,1,32,32:T:prob", "nn.MSSSIM(1.0, (0.5, 0.5), 3)", dynamic=False),
    *(
        Case(
            f"ops.max_unpool{n}d(*m(x), 2)",
            shape,
            "1",
            f"nn.MaxPool{n}d(2, 2, 'pad', return_indices=True)",
        )
        for n, shape in ((1, "1,2,8"), (2, "1,2,4,4"), (3, "1,2,4,4,4"))
    ),
    *(
        Case(
            "mint.nn.functional.max_unpool2d(*m(x), 2)",
            shape,
            "1",
            "nn.MaxPool2d(2, 2, 'pad', return_indices=True)",
            reference="ops.max_unpool2d(*m(x), 2)",
        )
        for shape in ("1,2,4,4", "2,4,4")
    ),
    *cells(
        "2,4 2,4",
        *(f"nn.{name}({reduction})" for name in LOSSES for reduction in ("", "reduction='none'")),
        "nn.RMSELoss()",
        "nn.MSELoss('sum')",
        "mint.nn.SmoothL1Loss()",
        "nn.KLDivLoss('batchmean')",
    ),
    *cells(
        "2,4 2,4:T:unit",
        "nn.PoissonNLLLoss()",
        "nn.PoissonNLLLoss(False, True)",
        "nn.DiceLoss()",
        "nn.MultiClassDiceLoss()",
        "nn.CrossEntropyLoss()",
        "nn.SoftmaxCrossEntropyWithLogits()",
        "nn.SoftmaxCrossEntropyWithLogits(reduction='mean')",
    ),
    *cells(
        "2,4 2,4:T:0..1",
        "nn.BCEWithLogitsLoss()",
        "mint.nn.BCEWithLogitsLoss()",
        "nn.MultiLabelSoftMarginLoss()",
        "nn.HingeEmbeddingLoss()",
    ),
    *cells(
        "2,4:T:prob 2,4:T:0..1", "nn.BCELoss()", "nn.BCELoss(reduction='sum')", "mint.nn.BCELoss()"
    ),
    *cells(
        "2,4 2:int32:0..3",
        "nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean')",
        "nn.NLLLoss()",
        "nn.CrossEntropyLoss()",
        "nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1)",
        "nn.NLLLoss(reduction='sum')",
    ),
    *cells("2,4 2:int64:0..3", "nn.MultiMarginLoss()", "nn.MultiMarginLoss(2, 0.5, 'sum')"),
    *cells("2,4 2:int64:0..3 4:T:pos", "nn.MultiMarginLoss(reduction='none')"),
    *lent(
        "2,4 2,4:int32:0..3",
        {
            "nn.MultilabelMarginLoss()": f"{HINGES}.mean()",
            "nn.MultilabelMarginLoss('none')": HINGES,
        },
    ),
    *cells("2,4,3 2,3:int32:0..3", "nn.CrossEntropyLoss()", "nn.NLLLoss()"),
    *cells("2,3,4,4 2,1,4,4:int32:0..2", "nn.FocalLoss()", dynamic=False),
    *cells(
        "2,4 2,4 2:int32:1..1", "nn.CosineEmbeddingLoss()", "nn.CosineEmbeddingLoss(0.3, 'sum')"
    ),
    *lent(
        "2,4 2,4 2:int64:1..1",
        {"mint.nn.CosineEmbeddingLoss()": "ops.cosine_embedding_loss(x, y, z.astype(ms.int32))"},
    ),
    *cells("2,4 2,4 2,4:T:unit", "nn.MarginRankingLoss()", "nn.MarginRankingLoss(0.5, 'none')"),
    *cells("2,4 2,4 2,4", "nn.TripletMarginWithDistanceLoss()"),
    *lent(
        "2,4 2,4 2,4",
        {
            "nn.TripletMarginLoss()": (
                f"ops.relu(1 + ops.sqrt(({NEAR} ** 2).sum(1)) - "
                f"ops.sqrt(({FAR} ** 2).sum(1))).mean()"
            ),
            "nn.TripletMarginLoss(p=1, swap=True, reduction='sum')": (
                f"ops.relu(1 + {NEAR}.sum(1) - ops.minimum({FAR}.sum(1), {BETWEEN}.sum(1))).sum()"
            ),
        },
    ),
    *cells(
        "2,4 2,4 2,4:T:pos",
        "nn.GaussianNLLLoss()",
        "nn.GaussianNLLLoss(full=True, reduction='sum')",
    ),
    *cells("5,2,4 2,3:int32:1..3 2:int32:5..5 2:int32:2..3", "nn.CTCLoss()", dynamic=False),
    *cells("2,3", "nn.LGamma()", "nn.DiGamma()"),
    *cells("2,3:T:pos 2,3:T:pos", "nn.IGamma()", "nn.LBeta()"),
    *cells("2,3 3,4", "nn.MatMul()"),
    *lent("2,3,3", {"nn.MatrixDiagPart()": f"(x * {EYE}).sum(-1)"}),
    *lent("2,3", {"nn.MatrixDiag()": f"x[:, :, None] * {EYE}"}, dynamic=False),
    *lent("2,3,3 2,3", {"nn.MatrixSetDiag()": f"x * (1 - {EYE}) + y[:, :, None] * {EYE}"}),
    *cells("2,3", "nn.Range(0, 3, 1)", call="x + m()"),
    *cells("1,2,8,8", "nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.5))", dynamic=False),
]
