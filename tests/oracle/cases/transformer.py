"""What transformer code is made of: attention, rotary embedding, caches, sampling, experts; and
recurrent layers.
"""

from recorded import Case

QKV = "1,2,4,8 1,2,4,8 1,2,4,8"
BSH = "1,4,16 1,4,16 1,4,16"
HEADS = "{}.reshape((1, -1, 2, 8)).swapaxes(1, 2)"


def attention(query: str, key: str, value: str, scale: float, more: str = "") -> str:
    """Attention of [B, N, S, D] in plain operators."""
    scores = f"ops.matmul({query}, {key}.swapaxes(-1, -2)) * {scale}{more}"
    return f"ops.matmul(ops.softmax({scores}, -1), {value})"


def of_hidden(more: str = "") -> str:
    """Attention of x, y and z, [B, S, H] each, in two heads."""
    return (
        attention(*(HEADS.format(name) for name in "xyz"), 1.0, more)
        + ".swapaxes(1, 2).reshape(x.shape)"
    )


CASES = [
    Case(
        "ops.matmul(ops.softmax(ops.matmul(x, y.swapaxes(-1, -2)) / 8 ** 0.5 + w, -1), z)",
        QKV + " 1,1,4,4",
        "f",
    ),
    Case("ops.flash_attention_score(x, y, z, 2)", BSH, "f", reference=of_hidden()),
    Case(
        "ops.flash_attention_score(x, y, z, 2, scalar_value=0.35, input_layout='BNSD')",
        QKV,
        "f",
        reference=attention("x", "y", "z", 0.35),
    ),
    Case(
        "ops.flash_attention_score(x, y, z, 2, attn_mask=w)",
        BSH + " 1,1,4,4:uint8:0..0",
        "f",
        reference=of_hidden(),
    ),
    Case(
        "ops.flash_attention_score(x, y, z, 2, attn_mask=ops.triu(ops.ones((4, 4), ms.uint8), 1))",
        BSH,
        "f",
        reference=of_hidden(" - 10000 * ops.triu(ops.ones((4, 4), x.dtype), 1)"),
    ),
    Case(
        "ops.FlashAttentionScore(4, input_layout='BNSD')(x, y, z, None, None, None, None)[3]",
        "1,4,3,8 1,2,3,8 1,2,3,8",
        "f",
        reference=attention(
            "x", "ops.repeat_interleave(y, 2, 1)", "ops.repeat_interleave(z, 2, 1)", 1.0
        ),
    ),
    Case(
        "ops.flash_attention_score(x, y, z, 2, input_layout='SBH')",
        "4,1,16 4,1,16 4,1,16",
        "f",
        reference=attention(
            *(f"{n}.reshape((4, 1, 2, 8)).transpose((1, 2, 0, 3))" for n in "xyz"), 1.0
        )
        + ".transpose((2, 0, 1, 3)).reshape((4, 1, 16))",
    ),
    Case(
        "ops.flash_attention_score(x, y, z, 2, input_layout='BSND')",
        "1,4,2,8 1,4,2,8 1,4,2,8",
        "f",
        reference=attention(*(f"{n}.swapaxes(1, 2)" for n in "xyz"), 1.0) + ".swapaxes(1, 2)",
    ),
    Case(
        "ops.prompt_flash_attention(x, y, z, None, None, None, None, None, None, None, None, "
        "None, num_heads=2)",
        BSH,
        "f",
        reference=of_hidden(),
    ),
    Case(
        "ag.PromptFlashAttention(2, 0.35, input_layout='BNSD')(x, y, z, None)",
        QKV,
        "f",
        reference=attention("x", "y", "z", 0.35),
    ),
    Case(
        "ops.incre_flash_attention(x, [y], [z], num_heads=2)",
        "1,1,16 1,4,16 1,4,16",
        "f",
        reference=of_hidden(),
    ),
    Case(
        "ops.PagedAttention(2, 1.0, 2)(x, y, z, w, v)",
        "1,1,16 4,2,2,8 4,2,2,8 1,2:int32:0..3 1:int32:3..3",
        "f",
    ),
    Case("ops.ReshapeAndCache()(x, y, z, w, v)", "1,2,8 1,2,8 2,4,2,8 2,4,2,8 1:int32:3..3", "f"),
    Case("ag.KVCacheScatterUpdate()(x, y, z, -2, 'update')", "1,2,4,8 1:int64:1..1 1,2,1,8", "f"),
    Case(
        "ops.rotary_position_embedding(x, y, z, 0)",
        "1,4,2,8 1,4,1,8 1,4,1,8",
        "f",
        reference="x * y + ops.concat((-x[..., 4:], x[..., :4]), -1) * z",
    ),
    Case(
        "ops.rotary_position_embedding(x, y, z, 1)",
        "1,4,2,8 1,4,1,8 1,4,1,8",
        "f",
        reference="x * y + ops.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape) * z",
    ),
    Case("ops.ApplyRotaryPosEmb(2)(x, y, z, w, v)", "1,2,16 1,2,16 4,8 4,8 1:int32:2..2", "f"),
    Case("x * y + ops.concat((-x[..., 4:], x[..., :4]), -1) * z", "1,2,4,8 4,8 4,8", "f"),
    Case("ops.swiglu(x, -1)", "2,3,8", "f", reference="ops.silu(x[..., :4]) * x[..., 4:]"),
    Case("ops.silu(x) * y", "2,3,8 2,3,8", "f"),
    Case("ops.topk(ops.softmax(x / 0.7, -1), 3)", "2,8", "f"),
    Case("ops.cumsum(ops.sort(ops.softmax(x, -1), -1, True)[0], -1)", "2,8", "1"),
    Case("mint.argmax(x[:, -1], -1)", "2,3,8", "f"),
    Case("ops.masked_fill(x, ops.cumsum(ops.softmax(x, -1), -1) > 0.9, float('-inf'))", "2,8", "f"),
    Case("ops.multinomial(x, 1)", "2,8:T:pos", "1"),
    Case("ops.gumbel_softmax(x)", "2,8", "1"),
    Case("ops.moe_token_permute(x, y)", "4,8 4:int64:0..2", "f"),
    Case("ops.moe_token_unpermute(x, y)", "4,8 4:int32:0..3", "f"),
    Case(
        "ag.grouped_matmul([x], [y], split_item=0, group_type=-1)",
        "2,3 3,4",
        "f",
        reference="ops.matmul(x, y)",
    ),
    Case("ag.quant_batch_matmul(x, y, z)", "2,16:int8 16,8:int8 8:float32:pos", "1"),
    Case("ag.weight_quant_batch_matmul(x, y, z)", "2,16:float16 16,8:int8 8:float16:pos", "1"),
    Case("ops.index_add(x, y, z, 0)", "4,8 2:int32:1..3 2,8", "1"),
    Case("ops.tensor_scatter_elements(x, y, z, 1)", "2,6 2,1:int64:0..5 2,1", "f"),
    Case("mint.nn.functional.one_hot(x, 4).sum(0)", "6:int64:0..3", "1"),
    Case("mint.nn.functional.cross_entropy(x, y)", "3,5 3:int64:0..4", "1"),
    Case("mint.nn.functional.nll_loss(x, y)", "3,5 3:int64:0..4", "1"),
    Case(
        "mint.nn.functional.mse_loss(x, y)", "2,3 2,3", "f", reference="((x - y) * (x - y)).mean()"
    ),
    Case("mint.nn.functional.l1_loss(x, y)", "2,3 2,3", "f", reference="ops.abs(x - y).mean()"),
    Case("mint.nn.functional.smooth_l1_loss(x, y)", "2,3 2,3", "f"),
    Case(
        "mint.nn.functional.kl_div(x, y)",
        "2,3 2,3:T:pos",
        "1",
        reference="(y * (ops.log(y) - x)).mean()",
    ),
    Case("mint.nn.functional.binary_cross_entropy(x, y)", "2,3:T:0..1 2,3:T:0..1", "1"),
    Case("mint.nn.functional.binary_cross_entropy_with_logits(x, y)", "2,3 2,3:T:0..1", "1"),
    Case("ops.NLLLoss()(x, y, z)", "3,5 3:int32:0..4 5:T:pos", "f"),
    Case("ops.SparseSoftmaxCrossEntropyWithLogits()(x, y)", "3,5 3:int32:0..4", "f"),
    Case("ops.SoftmaxCrossEntropyWithLogits()(x, y)", "3,5 3,5:T:unit", "f"),
    Case("ops.SigmoidCrossEntropyWithLogits()(x, y)", "2,3 2,3:T:unit", "f"),
    Case("ops.SmoothL1Loss()(x, y)", "2,3 2,3", "f"),
    Case("ops.KLDivLoss()(x, y)", "2,3 2,3:T:pos", "f"),
    Case("ops.BinaryCrossEntropy()(x, y, z)", "2,3:T:prob 2,3:T:0..1 2,3:T:pos", "f"),
    Case("ops.BCEWithLogitsLoss()(x, y, z, w)", "2,3 2,3:T:0..1 2,3:T:pos 2,3:T:pos", "f"),
    Case(
        "ops.SoftMarginLoss()(x, y)",
        "2,3 2,3:T:unit",
        "f",
        reference="ops.log(1 + ops.exp(-x * y)).mean()",
    ),
    *(
        Case("m(x)", shape, "1", cell)
        for shape, cell in (
            ("2,3,8", "nn.LSTM(8, 6, batch_first=True)"),
            ("2,3,8", "nn.LSTM(8, 6, 2, bidirectional=True)"),
            ("2,3,8", "nn.LSTM(8, 6, has_bias=False)"),
            ("2,3,8", "nn.GRU(8, 6, batch_first=True)"),
            ("2,3,8", "nn.GRU(8, 6, 2, bidirectional=True)"),
            ("2,3,8", "nn.RNN(8, 6, batch_first=True)"),
            ("2,3,8", "nn.RNN(8, 6, nonlinearity='relu', bidirectional=True)"),
        )
    ),
    *(Case("m(x, y)", "2,8 2,6", "1", cell) for cell in ("nn.GRUCell(8, 6)", "nn.RNNCell(8, 6)")),
    Case("m(x, (y, z))", "2,8 2,6 2,6", "1", "nn.LSTMCell(8, 6)"),
    Case("m(x, (y, z))", "3,2,8 1,2,6 1,2,6", "1", "nn.LSTM(8, 6)"),
    *(
        Case(
            f"ops.LSTM({width}, 4, {layers}, True, {two}, 0.0)(x, y, z, w)[:3]",
            f"3,2,{width} {n},2,4 {n},2,4 {size},1,1:T:unit",
            "f",
            dynamic=False,
        )
        for layers, two, width, n, size in (
            (1, False, 4, 1, 144),
            (1, False, 3, 1, 128),
            (1, True, 4, 2, 288),
            (2, False, 4, 2, 288),
            (2, True, 8, 4, 832),
        )
    ),
    Case(
        "ops.LSTM(4, 4, 1, False, False, 0.0)(x, y, z, w)[:3]",
        "3,2,4 1,2,4 1,2,4 128,1,1:T:unit",
        "f",
        dynamic=False,
    ),
    Case("m(x, x, x)[0]", "2,3,8", "1", "nn.MultiheadAttention(8, 2, batch_first=True)"),
    Case(
        "m(x, x, x, y)[0]", "2,3,8 2,3:bool", "1", "nn.MultiheadAttention(8, 2, batch_first=True)"
    ),
    Case("m(x)", "2,3,8", "1", "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)"),
    Case("m(x, y)", "2,3,8 2,4,8", "1", "nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)"),
    Case("m(x)", "3,2,8", "1", "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)"),
    *(
        Case("m(x)", "2,8", "1", cell)
        for cell in (
            "nn.Dropout(p=0.5)",
            "nn.Identity()",
            "nn.SequentialCell(nn.Dense(8, 4), nn.ReLU())",
            "mint.nn.Dropout(0.5)",
            "mint.nn.Identity()",
            "nn.ClipByNorm()",
            "nn.CosineSimilarity()",
        )
    ),
    *(
        Case("m(x, y)", "2,8 2,8", "1", cell)
        for cell in (
            "nn.CosineSimilarity()",
            "nn.MSELoss()",
            "nn.L1Loss()",
            "nn.SmoothL1Loss()",
            "nn.HuberLoss()",
            "nn.KLDivLoss()",
        )
    ),
]
