"""Pooling, resizing and sampling."""

from recorded import Case

IMAGE = "1,2,5,6"
CELLS = {
    "mint.nn.MaxPool2d(2)": "ops.MaxPool(2, 2)(x)",
    "mint.nn.AvgPool2d(2)": "ops.AvgPool(2, 2)(x)",
    "mint.nn.AdaptiveAvgPool2d(2)": "ops.AdaptiveAvgPool2D((2, 2))(x)",
    (
        "mint.nn.Upsample(size=(7, 8), mode='bilinear')"
    ): "ops.ResizeBilinearV2(False, True)(x, (7, 8))",
    "mint.nn.UpsamplingBilinear2d((7, 8))": "ops.ResizeBilinearV2(True, False)(x, (7, 8))",
}

CASES = [
    *(Case("m(x)", IMAGE, "f", cell, reference=reference) for cell, reference in CELLS.items()),
    Case("ops.MaxPool(2, 2)(x)", IMAGE, "f"),
    Case("ops.MaxPool(3, 2, 'same')(x)", IMAGE, "f"),
    Case("ops.AvgPool(2, 2)(x)", IMAGE, "f"),
    Case("ops.AvgPool(3, 2, 'same')(x)", IMAGE, "f"),
    Case("ops.MaxPool3D(2, 1)(x)", "1,2,3,3,4", "f"),
    Case("ops.AvgPool3D(2, 1)(x)", "1,2,3,3,4", "f"),
    Case("ops.AvgPool3D(3, 2, 'pad', 1, True, False)(x)", "1,2,4,4,5", "1"),
    Case("ops.AvgPool3D(2, 1, 'same', divisor_override=3)(x)", "1,2,3,3,4", "1"),
    Case("ops.MaxPoolWithArgmaxV2(2, 2)(x)", IMAGE, "fi"),
    Case("ops.MaxPoolWithArgmaxV2(3, 2, 1, (1, 1), True)(x)", IMAGE, "1"),
    Case("ops.MaxPoolWithArgmax(2, 2)(x)", IMAGE, "f"),
    Case("ops.MaxPool3DWithArgmax(2, 1, 0)(x)", "1,2,3,3,4", "f"),
    Case("ops.AdaptiveAvgPool2D((1, 1))(x)", IMAGE, "f"),
    Case("ops.AdaptiveAvgPool2D((2, 3))(x)", IMAGE, "f"),
    Case("ops.AdaptiveAvgPool2D((None, 4))(x)", IMAGE, "f", dynamic=False),
    Case("ops.AdaptiveMaxPool2D((2, 4))(x)", IMAGE, "f", dynamic=False),
    Case("ops.AdaptiveAvgPool3D((1, 2, 2))(x)", "1,2,3,3,4", "f"),
    Case("ops.AdaptiveMaxPool3D()(x, Tensor([1, 2, 2], ms.int32))[0]", "1,2,3,3,4", "f"),
    Case("ops.AdaptiveMaxPool2D((2, 4))(x)[0]", IMAGE, "f"),
    Case("ops.adaptive_avg_pool1d(x, 2)", "1,2,6", "f", dynamic=False),
    Case("ops.adaptive_max_pool1d(x, 2)", "1,2,6", "f"),
    Case("ops.avg_pool1d(x, 3, 2, 1)", "1,2,7", "f"),
    Case("ops.avg_pool2d(x, 3, 2, 1)", IMAGE, "f"),
    Case("ops.max_pool2d(x, 3, 2, 1)", IMAGE, "f"),
    Case("ops.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True)", IMAGE, "f"),
    Case("ops.max_pool3d(x, 2)", "1,2,4,4,4", "f"),
    Case("ops.lp_pool2d(x, 2, 2)", IMAGE, "f"),
    Case("ops.lp_pool1d(x, 2, 2)", "1,2,6", "f"),
    Case(
        "mint.nn.functional.avg_pool1d(x, 3, 2, 1)",
        "1,2,7",
        "f",
        reference="ops.avg_pool1d(x, 3, 2, 1)",
    ),
    Case(
        "mint.nn.functional.avg_pool2d(x, 3, 2, 1)",
        IMAGE,
        "f",
        reference="ops.avg_pool2d(x, 3, 2, 1)",
    ),
    Case(
        "mint.nn.functional.avg_pool2d(x, 3, 2, 1, False, False, 2)",
        IMAGE,
        "1",
        reference="ops.avg_pool2d(x, 3, 2, 1) * 4.5",
    ),
    Case(
        "mint.nn.functional.avg_pool3d(x, 2, 1)",
        "1,2,3,3,4",
        "f",
        reference="ops.AvgPool3D(2, 1)(x)",
    ),
    Case(
        "mint.nn.functional.max_pool2d(x, 3, 2, 1)",
        IMAGE,
        "f",
        reference="ops.max_pool2d(x, 3, 2, 1)",
    ),
    Case(
        "mint.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True)",
        IMAGE,
        "f",
        reference="ops.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True)",
    ),
    Case(
        "mint.nn.functional.adaptive_avg_pool1d(x, 2)",
        "1,2,6",
        "f",
        reference="ops.adaptive_avg_pool1d(x, 2)",
    ),
    Case(
        "mint.nn.functional.adaptive_avg_pool2d(x, (2, 3))",
        IMAGE,
        "f",
        reference="ops.AdaptiveAvgPool2D((2, 3))(x)",
    ),
    Case(
        "mint.nn.functional.adaptive_avg_pool3d(x, (1, 2, 2))",
        "1,2,3,3,4",
        "f",
        reference="ops.AdaptiveAvgPool3D((1, 2, 2))(x)",
    ),
    Case(
        "mint.nn.functional.adaptive_max_pool1d(x, 2)",
        "1,2,6",
        "f",
        reference="ops.adaptive_max_pool1d(x, 2)",
    ),
    Case("mint.nn.functional.adaptive_max_pool2d(x, (2, 3))", IMAGE, "f"),
    Case("ops.max_unpool2d(x, y, 2)", "1,1,2,2 1,1,2,2:int64:0..15", "f"),
    *(
        Case("m(x)", shape, "1", cell)
        for shape, cell in (
            (IMAGE, "nn.MaxPool2d(2, 2)"),
            (IMAGE, "nn.MaxPool2d(3, 2, 'same')"),
            (IMAGE, "nn.MaxPool2d(3, 2, 'pad', 1)"),
            (IMAGE, "nn.MaxPool2d(3, 2, 'pad', 1, ceil_mode=True, return_indices=True)"),
            (IMAGE, "nn.AvgPool2d(2, 2)"),
            (IMAGE, "nn.AvgPool2d(3, 2, 'pad', 1)"),
            (IMAGE, "nn.AvgPool2d(3, 2, 'pad', 1, True, False)"),
            ("1,2,7", "nn.MaxPool1d(3, 2)"),
            ("1,2,7", "nn.AvgPool1d(3, 2)"),
            ("1,2,7", "nn.MaxPool1d(3, 2, 'pad', 1)"),
            ("1,2,7", "nn.AvgPool1d(3, 2, 'pad', 1)"),
            ("1,2,4,4,4", "nn.MaxPool3d(2, 2)"),
            ("1,2,4,4,4", "nn.AvgPool3d(2, 2)"),
            (IMAGE, "nn.AdaptiveAvgPool2d(2)"),
            ("1,2,4,4,4", "nn.AdaptiveAvgPool3d(2)"),
            ("1,2,6", "nn.AdaptiveMaxPool1d(2)"),
            (IMAGE, "nn.AdaptiveMaxPool2d(2)"),
            ("1,2,4,4,4", "nn.AdaptiveMaxPool3d(2)"),
            (IMAGE, "nn.LPPool2d(2, 2)"),
            (IMAGE, "nn.Upsample(size=(7, 8))"),
            (IMAGE, "mint.nn.Upsample(scale_factor=2.0)"),
            (IMAGE, "mint.nn.UpsamplingNearest2d((7, 8))"),
        )
    ),
    *(
        Case(f"ops.ResizeNearestNeighbor((7, 4), {corners})(x)", IMAGE, "fI")
        for corners in (False, True)
    ),
    *(
        Case(f"ops.ResizeNearestNeighborV2({corners}, {half})(x, (7, 4))", IMAGE, "1")
        for corners, half in ((False, False), (True, False), (False, True))
    ),
    *(
        Case(f"ops.ResizeBilinearV2({corners}, {half})(x, (7, 4))", IMAGE, "f")
        for corners, half in ((False, False), (True, False), (False, True))
    ),
    *(
        Case(f"ops.ResizeBicubic({corners}, {half})(x, (7, 4))", IMAGE, "f", dynamic=False)
        for corners, half in ((False, False), (True, False), (False, True))
    ),
    Case("ops.ResizeLinear1D()(x, (7,))", "1,2,5", "f"),
    Case("ops.ResizeLinear1D('half_pixel')(x, (7,))", "1,2,5", "1"),
    Case("ops.ResizeArea()(x, Tensor([7, 4], ms.int32))", "1,5,6,2", "f"),
    *(
        Case(
            f"ops.interpolate(x, size=(7, 4), mode='{mode}')", IMAGE, "f", dynamic=mode != "bicubic"
        )
        for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact")
    ),
    Case("ops.interpolate(x, scale_factor=2.0, mode='area')", IMAGE, "1"),
    Case("ops.interpolate(x, size=(7, 4), mode='bilinear', align_corners=True)", IMAGE, "1"),
    Case("ops.interpolate(x, size=7, mode='linear')", "1,2,5", "1"),
    Case("ops.interpolate(x, size=7, mode='nearest')", "1,2,5", "1"),
    Case("ops.interpolate(x, size=(3, 4, 5), mode='trilinear')", "1,1,2,3,3", "1"),
    Case("mint.nn.functional.interpolate(x, size=(7, 4), mode='nearest')", IMAGE, "f"),
    Case(
        "mint.nn.functional.interpolate(x, size=(7, 4), mode='bilinear')",
        IMAGE,
        "f",
        reference="ops.ResizeBilinearV2(False, True)(x, (7, 4))",
    ),
    Case("mint.nn.functional.interpolate(x, scale_factor=(2.0, 1.5), mode='nearest')", IMAGE, "1"),
    Case(
        "mint.nn.functional.interpolate(x, scale_factor=(2.0, 1.5), mode='bilinear')",
        IMAGE,
        "1",
        reference="ops.ResizeBilinearV2(False, True)(x, (10, 9))",
    ),
    Case(
        "mint.nn.functional.interpolate(x, size=(7, 4), mode='bilinear', align_corners=True)",
        IMAGE,
        "1",
        reference="ops.ResizeBilinearV2(True, False)(x, (7, 4))",
    ),
    Case(
        "mint.nn.functional.interpolate(x, size=7, mode='linear')",
        "1,2,5",
        "1",
        reference="ops.ResizeLinear1D('half_pixel')(x, (7,))",
    ),
    Case("mint.nn.functional.interpolate(x, size=7, mode='nearest')", "1,2,5", "1"),
    Case("mint.nn.functional.interpolate(x, size=(3, 4, 5), mode='trilinear')", "1,1,2,3,3", "1"),
    Case("mint.nn.functional.interpolate(x, size=(3, 4, 5), mode='nearest')", "1,1,2,3,3", "1"),
    *(
        Case(
            f"ops.grid_sample(x, y, '{mode}', '{border}', {corners})", "1,2,4,5 1,3,3,2:T:unit", "f"
        )
        for mode, border, corners in (
            ("bilinear", "zeros", False),
            ("nearest", "border", False),
            ("bilinear", "reflection", True),
        )
    ),
    Case("mint.nn.functional.grid_sample(x, y)", "1,2,4,5 1,3,3,2:T:unit", "f"),
    Case("ops.grid_sample(x, y)", "1,1,3,4,4 1,2,2,2,3:T:unit", "1"),
    Case("ops.affine_grid(x, (1, 1, 3, 4))", "1,2,3", "1"),
    Case("ops.crop_and_resize(x, y, z, (3, 3))", "1,4,4,2 1,4:float32:unit 1:int32:0..0", "1"),
    Case("ops.NMSWithMask(0.5)(x)", "4,5:float32:pos", "1"),
]
