"""What to write instead of a primitive that has no lowering."""

from __future__ import annotations

_RANDOM = "draw the numbers outside the model and pass them as an input"
_FOURIER = "a product with a constant matrix of cosines and sines"
_BESSEL = "compute it outside the model"
_DECOMPOSITION = "compute it outside the model, or with NumPy before the export if its input is a parameter"
_QUANTISED = "export the network with float weights"
_CACHE = "a Concat with the cache passed as an input and returned as an output"

_REPLACEMENTS = {
    **dict.fromkeys((
        "Bernoulli", "BernoulliExt", "Gamma", "Multinomial", "MultinomialExt", "MultinomialWithReplacement",
        "NonDeterministicInts", "NormalFloatFloat", "NormalFloatTensor", "NormalTensorFloat", "NormalTensorTensor",
        "ParameterizedTruncatedNormal", "Poisson", "RandExt", "RandInt", "RandIntLike", "RandLikeExt", "Randn",
        "RandnLike", "RandomCategorical", "RandomChoiceWithMask", "RandomGamma", "RandomPoisson", "RandomShuffle",
        "Randperm", "RandpermExt", "RandpermV2", "StandardLaplace", "StandardNormal", "TruncatedNormal", "UniformExt",
        "UniformInt", "UniformReal", "LogNormalReverse", "Cauchy", "InplaceBernoulliScalar", "InplaceBernoulliTensor",
        "InplaceExponential", "InplaceNormal", "InplaceRandom", "InplaceUniform", "FractionalAvgPool",
        "FractionalMaxPool", "FractionalMaxPool3DWithFixedKsize", "FractionalMaxPoolWithFixedKsize",
        "UniformCandidateSampler", "LogUniformCandidateSampler"), _RANDOM),
    **dict.fromkeys((
        "FFT", "FFT2", "FFTN", "FFTWithSize", "HFFT", "HFFT2", "HFFTN", "IFFT", "IFFT2", "IFFTN", "IHFFT", "IHFFT2",
        "IHFFTN", "IRFFT", "IRFFT2", "IRFFTDouble", "IRFFTN", "RFFT", "RFFT2", "RFFTN", "DCT", "DCTN", "IDCT", "IDCTN",
        "STFT"), _FOURIER),
    **dict.fromkeys((
        "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1",
        "BesselK1e", "BesselY0", "BesselY1", "Betainc", "Igamma", "Igammac", "Polygamma", "Zeta", "Mvlgamma", "Gcd",
        "Lcm", "NextAfter"), _BESSEL),
    **dict.fromkeys((
        "Cholesky", "CholeskyInverse", "CholeskySolve", "CholeskyTrsm", "Eig", "Geqrf", "LinalgQr",
        "LogMatrixDeterminant", "Lstsq", "LstsqV2", "LuSolve", "LuUnpack", "MatrixExp", "MatrixInverse",
        "MatrixInverseExt", "MatrixLogarithm", "MatrixSolve", "MatrixSolveLs", "MatrixTriangularSolve", "Orgqr",
        "Ormqr", "Qr", "SolveTriangular", "Svd", "TriangularSolve", "NuclearNorm"), _DECOMPOSITION),
    **dict.fromkeys((
        "DequantSwigluQuant", "DynamicBlockQuant", "DynamicQuantExt", "GroupedMatmulV2", "GroupedMatmulV4",
        "QuantBatchMatmul", "QuantLinearSparse", "QuantMatmul", "QuantV2", "WeightQuantBatchMatmul", "KvScaleCache"),
        _QUANTISED),
    **dict.fromkeys((
        "KVCacheScatterUpdate", "ReshapeAndCache", "PagedAttention", "PagedAttentionMask"), _CACHE),
    **dict.fromkeys((
        "FusedInferAttentionScore", "SpeedFusionAttention", "RingAttentionUpdate", "NsaCompressAttention",
        "NsaSelectAttention", "SparseFlashAttention"),
        "FlashAttentionScore, PromptFlashAttention, or MatMul, Softmax and MatMul"),
    **dict.fromkeys(("ApplyRotaryPosEmb", "DynamicNTK"), "RotaryPositionEmbedding, or Concat, Mul and Add"),
    **dict.fromkeys((
        "MoeComputeExpertTokens", "MoeDistributeCombine", "MoeDistributeDispatch", "MoeFinalizeRouting",
        "MoeGatingTopKSoftmax", "MoeInitRouting", "MoeInitRoutingV2", "MoeTokenPermute", "MoeTokenUnpermute",
        "GroupTopk", "TopKRouter", "TopPRouter", "FusedAddTopKDiv"), "Softmax, TopK, Gather and one MatMul per expert"),
    **dict.fromkeys(("SliceToIndices", "Index", "InnerIndex"),
                    "Gather, GatherNd or IndexSelect, or a network exported with fixed dimensions"),
    "CTCGreedyDecoder": "Argmax, and the rest outside the model", "CTCLoss": "a loss is not for inference",
    "CTCLossV2": "a loss is not for inference",
}


def replacement_of(primitive: str) -> str:
    """What to write instead, or nothing where nobody has thought of something."""
    return _REPLACEMENTS.get(primitive, "")
