"""Cases of conversions: nodes in the forms of old opsets, which are brought to a later one."""

from __future__ import annotations

import numpy as np
from conversion_cases import IMAGE, Case, integers, signed

OLD_FORMS = [
    Case("Squeeze", (signed(1, 3, 1),), (), {"axes": [0]}, opset=11),
    Case("Unsqueeze", (signed(2, 3),), (), {"axes": [0, -1]}, opset=11),
    Case("Clip", (signed(2, 3),), (np.float32(-0.5), np.float32(0.5)), opset=11),
    Case("Pad", (signed(2, 3),), (integers(0, 1, 2, 0), np.float32(7)), opset=11),
    Case("ReduceSum", (signed(2, 3),), (), {"axes": [1]}, opset=11),
    Case("Slice", (signed(5, 6),), (integers(1), integers(4)), opset=11),
    Case("Softmax", (signed(2, 3, 4),), (), {"axis": 1}, opset=11),
    Case("LogSoftmax", (signed(2, 3),), (), {"axis": 1}, opset=11),
    Case("Split", (signed(4, 6),), (), {"axis": 1, "split": [2, 4]}, 2, 11),
    Case("Upsample", (IMAGE,), (np.float32([1, 1, 2, 2]),), opset=9),
]
