"""Families: the module that lowers each primitive, known before any of them is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
    "activation": (
        "CeLU", "Dropout", "Elu", "EluExt", "FastGeLU", "FastGelu", "GLU", "GeLU", "Gelu",
        "GeluExt", "HShrink", "HSigmoid", "HSwish", "Hardtanh", "LeakyReLUExt", "LogSigmoid",
        "LogSoftmax", "LogSoftmaxExt", "Logit", "Mish", "MishExt", "NpuGelu", "PReLU", "ReLU",
        "ReLU6", "ReLUV3", "SeLU", "SeLUExt", "SiLU", "SoftShrink", "Softmax", "Softplus",
        "SoftplusExt", "Softsign", "Swiglu", "Threshold",
    ),
    "adaptive": (
        "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt", "AdaptiveAvgPool3D",
        "AdaptiveAvgPool3DExt", "AdaptiveMaxPool1D", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D",
    ),
    "attention": (
        "FlashAttentionScore", "IncreFlashAttention", "PromptFlashAttention",
        "RotaryPositionEmbedding",
    ),
    "blocks": (
        "BatchToSpace", "BatchToSpaceND", "BatchToSpaceNDV2", "ChannelShuffle", "DepthToSpace",
        "PixelShuffle", "ReverseSequence", "SpaceToBatch", "SpaceToBatchND", "SpaceToDepth",
    ),
    "boxes": (
        "BoundingBoxDecode", "BoundingBoxEncode", "CheckValid", "IOU", "NMSWithMask", "ROIAlign",
    ),
    "collective": (
        "AllGather", "AllReduce", "AlltoAll", "Broadcast", "CollectiveGather", "CollectiveScatter",
        "NeighborExchange", "Receive", "Reduce", "ReduceScatter", "Send",
    ),
    "columns": (
        "Col2Im", "Col2ImExt", "ExtractImagePatches", "Im2Col", "Im2ColExt",
    ),
    "compare": (
        "ApproximateEqual", "BitwiseAnd", "BitwiseAndScalar", "BitwiseAndTensor", "BitwiseNot",
        "BitwiseOr", "BitwiseOrScalar", "BitwiseOrTensor", "BitwiseXor", "BitwiseXorScalar",
        "BitwiseXorTensor", "EqScalar", "Equal", "EqualExt", "Greater", "GreaterEqual",
        "GreaterEqualScalar", "Invert", "IsClose", "IsFinite", "IsInf", "IsNan", "Less",
        "LessEqual", "LessScalar", "LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor",
        "MaskedFill", "MaskedFillScalar", "NotEqual", "Select", "SelectV2",
    ),
    "complex_numbers": (
        "Complex", "ComplexAbs", "Conj", "Imag", "Polar", "Real",
    ),
    "conv": (
        "Conv1DExt", "Conv1DPadding", "Conv2D", "Conv2DExt", "Conv2DPadding", "Conv3D", "Conv3DExt",
        "Conv3DPadding", "Convolution", "DepthwiseConv2dNative",
    ),
    "conv_transpose": (
        "Conv2DBackpropInput", "Conv2DTranspose", "Conv3DTranspose", "ConvTranspose2D",
    ),
    "create": (
        "Arange", "Diag", "Empty", "EmptyLike", "Eye", "Fill", "FillScalar", "FillTensor", "FillV2",
        "Fills", "FullLike", "LinSpace", "LinSpaceExt", "Meshgrid", "NewEmpty", "NewFull",
        "NewOnes", "NewZeros", "Ones", "OnesLike", "OnesLikeExt", "Range", "Tril", "TrilExt",
        "TrilIndices", "Triu", "TriuIndices", "Zeros", "ZerosLike", "ZerosLikeExt",
    ),
    "crops": (
        "CropAndResize",
    ),
    "diagonal": (
        "DiagExt", "DiagPart", "Diagonal", "DiagonalView", "MatrixBandPart", "MatrixDiag",
        "MatrixDiagPart", "MatrixDiagPartV3", "MatrixDiagV3", "MatrixSetDiag", "MatrixSetDiagV3",
        "Trace", "TraceExt", "TraceV2",
    ),
    "find": (
        "EmbeddingLookup", "InTopK", "MaskedScatter", "MaskedSelect", "NonZero", "NonZeroExt",
        "SearchSorted", "Take", "Unique", "Unique2", "UniqueConsecutive", "UnravelIndex",
    ),
    "gather": (
        "Embedding", "Gather", "GatherD", "GatherNd", "GetTupleIndexInfo", "IndexSelect", "OneHot",
        "OneHotExt", "RepeatInterleaveInt", "RepeatInterleaveTensor", "ReverseV2", "Roll",
        "SelectExtView", "SparseGatherV2",
    ),
    "inplace": (
        "InplaceAddExt", "InplaceAddmm", "InplaceAddsExt", "InplaceClampScalar",
        "InplaceClampTensor", "InplaceCopy", "InplaceDiv", "InplaceDivMod", "InplaceDivMods",
        "InplaceDivs", "InplaceElu", "InplaceErfinv", "InplaceExp", "InplaceFillScalar",
        "InplaceFillTensor", "InplaceFloor", "InplaceFloorDivide", "InplaceFloorDivides",
        "InplaceHardtanh", "InplaceIndexAddExt", "InplaceIndexFillScalar", "InplaceIndexFillTensor",
        "InplaceLog", "InplaceMaskedFillScalar", "InplaceMaskedFillTensor", "InplaceMaskedScatter",
        "InplaceMul", "InplaceMuls", "InplaceReLU", "InplaceRemainderTensorScalar",
        "InplaceRemainderTensorTensor", "InplaceScatterAdd", "InplaceScatterSrc",
        "InplaceScatterValue", "InplaceSiLU", "InplaceSigmoid", "InplaceSign", "InplaceSubExt",
        "InplaceSubScalar", "InplaceTanh", "InplaceThreshold", "InplaceZero",
    ),
    "linear": (
        "Add", "Addbmm", "Addmm", "Addmv", "Baddbmm", "BatchMatMul", "BatchMatMulExt", "BiasAdd",
        "Dense", "Dot", "Einsum", "Ger", "GroupedMatmul", "MatMul", "MatMulExt",
        "MatrixDeterminant", "MatrixPower", "Mm", "Mv", "Outer", "TensorAdd", "Vdot",
    ),
    "loss": (
        "BCEWithLogitsLoss", "BinaryCrossEntropy", "KLDiv", "KLDivLoss", "L1LossExt", "MSELossExt",
        "NLLLoss", "SigmoidCrossEntropyWithLogits", "SmoothL1Loss", "SoftMarginLoss",
        "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits",
    ),
    "margins": (
        "MultiMarginLoss", "MultilabelMarginLoss", "TripletMarginLoss",
    ),
    "math": (
        "ACos", "Abs", "AccumulateNV2", "AcosExt", "Acosh", "AcoshExt", "AddExt", "AddN",
        "AddScalar", "Addcdiv", "AddcdivExt", "Addcmul", "AddcmulExt", "Asin", "AsinExt", "Asinh",
        "AsinhExt", "Atan", "AtanExt", "Atanh", "Cast", "Ceil", "ClampMin", "ClampScalar",
        "ClampTensor", "Cos", "Cosh", "Div", "DivMod", "DivMods", "DivNoNan", "Divs", "Erf", "Erfc",
        "Exp", "Exp2", "Expm1", "Floor", "FloorDiv", "FloorDivScalar", "FloorMod", "FmodScalar",
        "FmodTensor", "Inv", "Lerp", "LerpScalar", "Log", "Log10", "Log1p", "Log2", "Maximum",
        "Minimum", "Mod", "Mul", "Muls", "Neg", "Pow", "PowScalarTensor", "PowTensorScalar",
        "RealDiv", "Reciprocal", "RemainderScalarTensor", "RemainderTensorScalar",
        "RemainderTensorTensor", "Rint", "Round", "Rsqrt", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt",
        "Square", "SquaredDifference", "Sub", "SubExt", "SubScalar", "Tan", "Tanh", "Trunc",
        "TruncateDiv", "TruncateMod", "TypeAs", "XLogYScalarOther", "XLogYScalarSelf", "Xdivy",
        "Xlogy",
    ),
    "norm": (
        "AddLayerNormV2", "AddRmsNorm", "BatchNorm", "BatchNormExt", "GroupNorm", "InstanceNorm",
        "L2Normalize", "LRN", "LayerNorm", "LayerNormExt", "LayerNormV3", "RmsNorm",
    ),
    "pad": (
        "ConstantPadND", "MirrorPad", "Pad", "PadV3", "ReflectionPad1D", "ReflectionPad2D",
        "ReflectionPad3D", "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D",
    ),
    "passthrough": (
        "Clone", "Contiguous", "Copy", "Depend", "Identity", "IdentityN", "Load", "MakeTuple",
        "StopGradient", "TensorMove", "TupleGetItem", "list_getitem", "make_list",
    ),
    "pool": (
        "AvgPool", "AvgPool1D", "AvgPool2D", "AvgPool3D", "AvgPool3DExt", "MaxPool", "MaxPool3D",
        "MaxPool3DWithArgmax", "MaxPoolWithArgmax", "MaxPoolWithArgmaxV2", "MaxPoolWithIndices",
        "MaxPoolWithMask",
    ),
    "random": (
        "StandardNormal", "UniformReal",
    ),
    "recurrent": (
        "LSTM",
    ),
    "reduce": (
        "Any", "AnyExt", "ArgMaxExt", "ArgMaxWithValue", "ArgMinExt", "ArgMinWithValue", "Argmax",
        "Argmin", "CountNonZero", "L2Loss", "LogSumExp", "Max", "MaxDim", "MeanExt", "Min",
        "MinDim", "Nansum", "ProdExt", "ReduceAll", "ReduceAny", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "SquareSumAll", "SumExt",
    ),
    "resize": (
        "AffineGrid", "GridSampler2D", "GridSampler3D", "ResizeBicubic", "ResizeBilinearV2",
        "ResizeLinear1D", "ResizeNearestNeighbor", "ResizeNearestNeighborV2", "UpsampleBicubic2D",
        "UpsampleBilinear2D", "UpsampleLinear1D", "UpsampleNearest1D", "UpsampleNearest2D",
        "UpsampleNearest3D", "UpsampleTrilinear3D",
    ),
    "scalar": (
        "BoolNot", "ListToTensor", "ScalarAdd", "ScalarBool", "ScalarCast", "ScalarDiv", "ScalarEq",
        "ScalarFloorDiv", "ScalarGe", "ScalarGt", "ScalarLe", "ScalarLt", "ScalarMax", "ScalarMin",
        "ScalarMod", "ScalarMul", "ScalarPow", "ScalarSub", "ScalarToTensor", "ScalarUadd",
        "ScalarUsub", "TensorToList", "TensorToScalar", "TensorToTuple", "TupleToTensor",
        "bool_not", "is_", "is_not",
    ),
    "scatter": (
        "IndexAdd", "IndexAddExt", "IndexFill", "IndexFillScalar", "IndexFillTensor", "InplaceAdd",
        "InplaceSub", "InplaceUpdateV2", "Scatter", "ScatterAddExt", "ScatterNd", "ScatterValue",
        "TensorScatterAdd", "TensorScatterDiv", "TensorScatterElements", "TensorScatterMax",
        "TensorScatterMin", "TensorScatterMul", "TensorScatterSub", "TensorScatterUpdate",
    ),
    "segments": (
        "Bincount", "BincountExt", "HistcExt", "SegmentMax", "SegmentMean", "SegmentMin",
        "SegmentProd", "SegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin",
        "UnsortedSegmentProd", "UnsortedSegmentSum",
    ),
    "sequence": (
        "InSequence", "ListAppend", "SequenceAdd", "SequenceMax", "SequenceMin", "SequenceMul",
        "SequenceSlice", "list_equal", "list_greater_equal", "list_greater_than", "list_le",
        "list_lt", "list_setitem", "make_range", "sequence_len", "tuple_equal",
        "tuple_greater_equal", "tuple_greater_than", "tuple_le", "tuple_lt", "tuple_setitem",
    ),
    "shape": (
        "BroadcastTo", "BroadcastToView", "Concat", "ExpandAs", "ExpandDims", "ExpandDimsView",
        "Flatten", "FlattenExt", "Pack", "Rank", "Repeat", "Reshape", "Shape", "Size", "Squeeze",
        "Stack", "StackExt", "TExt", "TensorShape", "Tile", "TileSize", "Transpose",
        "TransposeExtView", "TransposeView", "View", "ViewAs",
    ),
    "slicing": (
        "Narrow", "NarrowView", "Slice", "SliceExt", "SliceExtView", "StridedSlice",
    ),
    "sort": (
        "ArgSort", "CumProd", "CumSum", "Cummax", "Cummin", "CumminExt", "CumsumExt",
        "CumulativeLogsumexp", "Kthvalue", "Median", "MedianDim", "MedianExt", "NthElement", "Sort",
        "SortExt", "TopK", "TopkExt",
    ),
    "special": (
        "Atan2", "Atan2Ext", "Cross", "Digamma", "Erfinv", "Fmax", "Fmin", "Frac", "Heaviside",
        "Hypot", "IsNegInf", "LeftShift", "Lgamma", "LogAddExp", "LogAddExp2", "MulNoNan",
        "NanToNum", "RightShift", "Sinc",
    ),
    "split": (
        "Chunk", "ChunkView", "Split", "SplitTensor", "SplitTensorView", "SplitV", "SplitWithSize",
        "SplitWithSizeView", "Unpack", "Unstack", "UnstackExtView",
    ),
    "state": (
        "Assign", "AssignAdd", "AssignSub", "InplaceIndexAdd", "ScatterAdd", "ScatterMax",
        "ScatterMin", "ScatterMul", "ScatterNdAdd", "ScatterNdMax", "ScatterNdMin", "ScatterNdMul",
        "ScatterNdSub", "ScatterNdUpdate", "ScatterSub", "ScatterUpdate",
    ),
    "statistics": (
        "Cdist", "EuclideanNorm", "LinalgVectorNorm", "LpNorm", "LpNormV2", "Norm", "ReduceStd",
        "Std", "StdMean", "Var", "VarMean",
    ),
    "unpool": (
        "MaxUnpool2D", "MaxUnpool2DExt", "MaxUnpool3D",
    ),
}
FAMILY_OF = {
    primitive: family for family, primitives in FAMILIES.items() for primitive in primitives
}
