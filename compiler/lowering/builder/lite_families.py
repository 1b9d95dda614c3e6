"""Families of .ms primitives: the module lowering each, known before it is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

LITE_FAMILIES: dict[str, tuple[str, ...]] = {
    "activation": (
        "Lite.Activation", "Lite.Clip", "Lite.Elu", "Lite.LeakyRelu", "Lite.PReLUFusion",
    ),
    "arithmetic": (
        "Lite.AddFusion", "Lite.AddN", "Lite.Cast", "Lite.CumSum", "Lite.DivFusion", "Lite.Dropout",
        "Lite.Eltwise", "Lite.ExpFusion", "Lite.InvertPermutation", "Lite.MulFusion",
        "Lite.PowFusion", "Lite.QuantDTypeCast", "Lite.SubFusion",
    ),
    "attention": (
        "Lite.Attention",
    ),
    "audio": (
        "Lite.AudioSpectrogram", "Lite.Mfcc",
    ),
    "blocks": (
        "Lite.BatchToSpace", "Lite.BatchToSpaceND", "Lite.DepthToSpace", "Lite.SpaceToBatch",
        "Lite.SpaceToBatchND", "Lite.SpaceToDepth",
    ),
    "collective": (
        "Lite.AllGather", "Lite.ReduceScatter",
    ),
    "conv": (
        "Lite.AdderFusion", "Lite.Conv2DFusion", "Lite.Conv2dTransposeFusion",
    ),
    "detection": (
        "Lite.DetectionPostProcess",
    ),
    "features": (
        "Lite.CustomPredict", "Lite.LshProjection",
    ),
    "gather": (
        "Lite.EmbeddingLookupFusion", "Lite.Gather", "Lite.NonMaxSuppression", "Lite.NonZero",
        "Lite.ReverseV2", "Lite.ScatterElements", "Lite.ScatterNd", "Lite.ScatterNdUpdate",
        "Lite.SparseReshape", "Lite.SparseSegmentSum", "Lite.SparseToDense", "Lite.Splice",
        "Lite.UnsortedSegmentSum", "Lite.Where",
    ),
    "linear": (
        "Lite.Affine", "Lite.FullConnection", "Lite.MatMulFusion",
    ),
    "lists": (
        "Lite.TensorArray", "Lite.TensorArrayRead", "Lite.TensorArrayWrite",
        "Lite.TensorListFromTensor", "Lite.TensorListGetItem", "Lite.TensorListReserve",
        "Lite.TensorListSetItem", "Lite.TensorListStack",
    ),
    "loss": (
        "Lite.BinaryCrossEntropy", "Lite.NLLLoss", "Lite.SigmoidCrossEntropyWithLogits",
        "Lite.SmoothL1Loss", "Lite.SoftmaxCrossEntropyWithLogits",
        "Lite.SparseSoftmaxCrossEntropyWithLogits",
    ),
    "norm": (
        "Lite.BatchNorm", "Lite.BiasAdd", "Lite.FakeQuantWithMinMaxVars",
        "Lite.FakeQuantWithMinMaxVarsPerChannel", "Lite.FusedBatchNorm", "Lite.GroupNormFusion",
        "Lite.InstanceNorm", "Lite.L2NormalizeFusion", "Lite.LRN", "Lite.LayerNormFusion",
        "Lite.LpNormalization", "Lite.ScaleFusion",
    ),
    "pool": (
        "Lite.AvgPoolFusion", "Lite.MaxPoolFusion",
    ),
    "prior_boxes": (
        "Lite.PriorBox",
    ),
    "quantised": (
        "Lite.Cluster", "Lite.Dequantize", "Lite.DynamicQuant", "Lite.Quantize",
    ),
    "ragged": (
        "Lite.HashtableLookup", "Lite.RaggedRange", "Lite.SparseFillEmptyRows",
    ),
    "random": (
        "Lite.RandomNormal", "Lite.RandomStandardNormal", "Lite.UniformReal",
    ),
    "recurrent": (
        "Lite.GRU", "Lite.LSTM",
    ),
    "reduce": (
        "Lite.All", "Lite.ArgMaxFusion", "Lite.ArgMinFusion", "Lite.ReduceFusion",
        "Lite.TopKFusion",
    ),
    "resize": (
        "Lite.CropAndResize", "Lite.ROIPooling", "Lite.Resize",
    ),
    "shape": (
        "Lite.BroadcastTo", "Lite.Concat", "Lite.ConstantOfShape", "Lite.ExpandDims", "Lite.Fill",
        "Lite.FillV2", "Lite.Flatten", "Lite.FormatTranspose", "Lite.OneHot", "Lite.Range",
        "Lite.Rank", "Lite.Reshape", "Lite.Shape", "Lite.Size", "Lite.Split",
        "Lite.SplitWithOverlap", "Lite.Squeeze", "Lite.Stack", "Lite.TileFusion", "Lite.Transpose",
        "Lite.Unsqueeze", "Lite.Unstack",
    ),
    "slicing": (
        "Lite.Crop", "Lite.PadFusion", "Lite.SliceFusion", "Lite.StridedSlice",
    ),
    "spectrum": (
        "Lite.FftImag", "Lite.FftReal", "Lite.Rfft",
    ),
}
LITE_FAMILY_OF = {
    primitive: family for family, primitives in LITE_FAMILIES.items() for primitive in primitives
}
