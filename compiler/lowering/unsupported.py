"""Unsupported primitives: those of a model without a lowering, and replacements for them."""

from __future__ import annotations

from ...comm.errors import UnsupportedPrimitives
from ..mindir.graph import MindirModel
from .builder import is_supported
from .control_flow.analysis import ORDER_ONLY, live_nodes, raising_functions

CHOOSING = frozenset({"Partial", "Switch", "switch_layer"})
HANDLED = CHOOSING | ORDER_ONLY
"""Primitives that lower_mindir handles itself."""
_FIXED_INDEXING = "Gather, GatherNd or IndexSelect, or a network exported with fixed dimensions"
_REPLACEMENTS: dict[str, str] = {
    "draw the numbers outside the model and pass them as an input": (
        "Bernoulli BernoulliExt Cauchy FractionalAvgPool FractionalMaxPool "
        "FractionalMaxPool3DWithFixedKsize FractionalMaxPoolWithFixedKsize Gamma "
        "InplaceBernoulliScalar InplaceBernoulliTensor InplaceExponential InplaceNormal "
        "InplaceRandom InplaceUniform LogNormalReverse LogUniformCandidateSampler Multinomial "
        "MultinomialExt MultinomialWithReplacement NonDeterministicInts NormalFloatFloat "
        "NormalFloatTensor NormalTensorFloat NormalTensorTensor ParameterizedTruncatedNormal "
        "Poisson RandExt RandInt RandIntLike RandLikeExt Randn RandnLike RandomCategorical "
        "RandomChoiceWithMask RandomGamma RandomPoisson RandomShuffle Randperm RandpermExt "
        "RandpermV2 StandardLaplace TruncatedNormal UniformCandidateSampler "
        "UniformExt UniformInt"
    ),
    "a product with a constant matrix of cosines and sines": (
        "DCT DCTN FFT FFT2 FFTN FFTWithSize HFFT HFFT2 HFFTN IDCT IDCTN IFFT IFFT2 IFFTN IHFFT "
        "IHFFT2 IHFFTN IRFFT IRFFT2 IRFFTDouble IRFFTN RFFT RFFT2 RFFTN STFT"
    ),
    "compute it outside the model": (
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 "
        "BesselK1e BesselY0 BesselY1 Betainc Gcd Igamma Igammac Lcm Mvlgamma NextAfter Polygamma "
        "Zeta"
    ),
    "compute it outside the model, or with NumPy before the export if its input is a parameter": (
        "Cholesky CholeskyInverse CholeskySolve CholeskyTrsm Eig Geqrf LinalgQr "
        "LogMatrixDeterminant Lstsq LstsqV2 LuSolve LuUnpack MatrixExp MatrixInverse "
        "MatrixInverseExt MatrixLogarithm MatrixSolve MatrixSolveLs MatrixTriangularSolve "
        "NuclearNorm Orgqr Ormqr Qr SolveTriangular Svd TriangularSolve"
    ),
    "export the network with float weights": (
        "DequantSwigluQuant DynamicBlockQuant DynamicQuantExt GroupedMatmulV2 GroupedMatmulV4 "
        "KvScaleCache QuantBatchMatmul QuantLinearSparse QuantMatmul QuantV2 "
        "WeightQuantBatchMatmul"
    ),
    "a Concat with the cache passed as an input and returned as an output": (
        "KVCacheScatterUpdate PagedAttention PagedAttentionMask ReshapeAndCache"
    ),
    "FlashAttentionScore, PromptFlashAttention, or MatMul, Softmax and MatMul": (
        "FusedInferAttentionScore NsaCompressAttention NsaSelectAttention RingAttentionUpdate "
        "SparseFlashAttention SpeedFusionAttention"
    ),
    "RotaryPositionEmbedding, or Concat, Mul and Add": "ApplyRotaryPosEmb DynamicNTK",
    "Softmax, TopK, Gather and one MatMul per expert": (
        "FusedAddTopKDiv GroupTopk MoeComputeExpertTokens MoeDistributeCombine "
        "MoeDistributeDispatch MoeFinalizeRouting MoeGatingTopKSoftmax MoeInitRouting "
        "MoeInitRoutingV2 MoeTokenPermute MoeTokenUnpermute TopKRouter TopPRouter"
    ),
    _FIXED_INDEXING: "Index InnerIndex SliceToIndices",
    "Argmax, and the rest outside the model": "CTCGreedyDecoder",
    "convert the network without its training part": (
        "Lite.AbsGrad Lite.ActivationGrad Lite.Adam Lite.AdamWeightDecay Lite.AddGrad "
        "Lite.ApplyMomentum Lite.AvgPoolGrad Lite.BatchNormGrad Lite.BiasAddGrad "
        "Lite.BinaryCrossEntropyGrad Lite.Conv2DBackpropFilterFusion "
        "Lite.Conv2DBackpropInputFusion Lite.DeConv2DGradFilter Lite.DivGrad Lite.DropoutGrad "
        "Lite.FlattenGrad Lite.LayerNormGrad Lite.LogGrad Lite.LSTMGrad Lite.LSTMGradData "
        "Lite.LSTMGradWeight Lite.MaxPoolGrad Lite.MaximumGrad Lite.MinimumGrad Lite.MulGrad "
        "Lite.NegGrad Lite.NLLLossGrad Lite.PowerGrad Lite.ResizeGrad Lite.RsqrtGrad Lite.SGD "
        "Lite.SigmoidCrossEntropyWithLogitsGrad Lite.SmoothL1LossGrad Lite.SqrtGrad "
        "Lite.StridedSliceGrad Lite.SubGrad"
    ),
    "handle texts outside the model and pass numbers": (
        "Lite.CustomExtractFeatures Lite.CustomNormalize Lite.SkipGram"
    ),
    "a loss is not for inference": "CTCLoss CTCLossV2",
}
"""Texts of what to write instead, each with the primitives that it is for."""


def unsupported(model: MindirModel) -> dict[str, list[str]]:
    """Primitives without a lowering, each with the labels of the nodes that use it."""
    missing: dict[str, list[str]] = {}
    left_out = raising_functions(model)
    called = (graph for name, graph in model.functions.items() if name not in left_out)
    for graph in (model.entry, *called):
        for node in live_nodes(graph):
            known = node.primitive in HANDLED or is_supported(node.primitive)
            if node.primitive and not known:
                missing.setdefault(node.primitive, []).append(node.label)
    return missing


def refuse_unsupported(model: MindirModel) -> None:
    """Raise UnsupportedPrimitives if there is any, naming all of them and where they are."""
    missing = unsupported(model)
    if missing:
        lines = [_line(name, labels) for name, labels in sorted(missing.items())]
        raise UnsupportedPrimitives(
            f"{model.path}: {len(missing)} primitives are not supported:\n"
            + "\n".join(lines)
            + "\nExport the network without them; `rankmesh inspect` lists what a model uses."
        )


def _line(primitive: str, labels: list[str]) -> str:
    instead = replacement_of(primitive)
    places = ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")
    return f"  {primitive} ({len(labels)}): {places}{f'; instead: {instead}' if instead else ''}"


def replacement_of(primitive: str) -> str:
    """A replacement of a primitive to write in the network, empty where none is known."""
    found = (text for text, primitives in _REPLACEMENTS.items() if primitive in primitives.split())
    return next(found, "")
