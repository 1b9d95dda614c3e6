"""Boxes of detection networks: offsets, overlaps, suppression, regions of interest."""

from recorded import Case

CORNERS = "ops.concat((x[:, :2], x[:, :2] + ops.abs(x[:, 2:]) + 1), 1)"
OTHERS = "ops.concat((y[:, :2], y[:, :2] + ops.abs(y[:, 2:]) + 1), 1)"
REGIONS = "ops.concat((z, ops.abs(y[:, :2]), ops.abs(y[:, :2]) + ops.abs(y[:, 2:])), 1)"
CASES = [
    *(Case(f"ops.IOU('{mode}')({CORNERS}, {OTHERS})", "5,4 3,4", "f") for mode in ("iou", "iof")),
    Case(f"ops.BoundingBoxDecode((6, 8))({CORNERS}, y)", "5,4 5,4", "f"),
    Case(
        "ops.BoundingBoxDecode((6, 8), (0.1, 0.0, 0.2, 0.0), (0.5, 0.5, 3.0, 3.0), "
        f"0.3)({CORNERS}, y)",
        "5,4 5,4",
        "f",
    ),
    Case(f"ops.BoundingBoxEncode()({CORNERS}, {OTHERS})", "5,4 5,4", "f"),
    Case(
        f"ops.BoundingBoxEncode((0.1, 0.0, 0.2, 0.0), (0.5, 0.5, 2.0, 2.0))({CORNERS}, {OTHERS})",
        "5,4 5,4",
        "f",
    ),
    Case("ops.CheckValid()(x, y)", "6,4 3:T:pos", "f"),
    *(
        Case(f"ops.NMSWithMask({threshold})(ops.concat(({CORNERS}, y), 1))", "8,4 8,1", "f")
        for threshold in (0.1, 0.3, 0.5)
    ),
    *(
        Case(
            f"ops.ROIAlign(2, 3, 0.5, {samples}, {mode})(x, {REGIONS})",
            "2,3,6,7 4,4:T:pos 4,1:T:0..1",
            "1",
        )
        for samples, mode in ((2, 1), (2, 0), (3, 1))
    ),
    *(
        Case(
            f"ops.CropAndResize('{method}', 0.5)(x, y, z, (3, 4))",
            "2,5,6,3 4,4:float32:unit 4:int32:0..1",
            "1",
        )
        for method in ("bilinear", "nearest")
    ),
    Case("ops.dropout(x, p=0.0)", "2,3", "f"),
    Case("ops.Dropout(1.0)(x)[0]", "2,3", "f"),
]
