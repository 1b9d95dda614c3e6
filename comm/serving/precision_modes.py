"""Precision modes: the words that ask for the type in which a model, or one node, computes."""

from __future__ import annotations

FLOAT, HALF, BFLOAT16 = 1, 10, 16  # onnx.TensorProto's; importing onnx takes long
TF32 = "preferred_tf32"
FASTEST = -1
"""float16 on a device that computes in it, float32 on a CPU."""

MODES: dict[str, int | None] = {
    "enforce_fp32": FLOAT,
    "preferred_fp32": None,
    "preferred_fp16": HALF,
    "preferred_bf16": BFLOAT16,
    TF32: None,
    "enforce_fp16": HALF,
    "enforce_origin": None,
    "preferred_optimal": FASTEST,
    "force_fp32": FLOAT,
    "force_fp16": HALF,
    "allow_fp32_to_fp16": None,
    "must_keep_origin_dtype": None,
    "cube_fp16in_fp32out": None,
    "allow_mix_precision": FASTEST,
    "allow_mix_precision_fp16": FASTEST,
}
"""Element types that a mode converts to, None: as the file says. The modes of a Context, then GE's
own names for them."""

NODE_TYPES = {"float32": FLOAT, "float16": HALF, "bfloat16": BFLOAT16}
