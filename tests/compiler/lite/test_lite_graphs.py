"""Graphs of .ms files: functions, several results, quantised and packed weights, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lite_models import LiteModel, run_model

import rankmesh as mslite
from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lite.lite_file import read_lite
from rankmesh.compiler.model_file.mindir_format import load_mindir
from rankmesh.compiler.model_file.model_format import load_model

F32 = np.float32
R = np.random.default_rng(3)
X = R.normal(size=(3, 8)).astype(F32)
WEIGHT = R.integers(-128, 128, (4, 8)).astype(np.int8)
SCALES = [0.01, 0.02, 0.03, 0.04]


def saved(folder: Path, model: LiteModel) -> str:
    path = folder / "m.ms"
    path.write_bytes(model.content())
    return str(path)


def param(scale: float, zero: int = 0, **fields: float) -> dict[str, float]:
    return {"scale": scale, "zeroPoint": zero, "inited": True, **fields}


def product(model: LiteModel, weight: int, **fields: str) -> None:
    """A product of the input and a transposed weight."""
    given = model.input(X)
    result = model.value(F32, (3, 4))
    model.node("MatMulFusion", [given, weight], [result], {"transpose_b": True}, **fields)
    model.outputs = [result]


@pytest.mark.parametrize("corrected", [False, True])
def test_a_weight_of_one_scale_for_each_channel(tmp_path: Path, corrected: bool) -> None:
    model = LiteModel()
    more = {"varCorr": 1.5, "meanCorr": 0.25} if corrected else {}
    params = [param(scale, zero, **more) for zero, scale in enumerate(SCALES)]
    product(model, model.constant(WEIGHT, quantParams=params), quantType="QUANT_WEIGHT")
    weight = (WEIGHT - np.arange(4)[:, None]) * np.asarray(SCALES)[:, None]
    weight = weight * 1.5 + 0.25 if corrected else weight
    (result,) = run_model(read_lite(saved(tmp_path, model)), [X])
    np.testing.assert_allclose(result, X @ weight.T, rtol=1e-4, atol=1e-4)


def packed(values: np.ndarray, bits: int) -> bytes:
    """Values of `bits` bits each, the lowest bit first."""
    shifted = (values.reshape(-1).astype(np.int64) + (1 << (bits - 1)))[:, None]
    every = (shifted >> np.arange(bits)) & 1
    return np.packbits(every.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def bits_of(numbers: list[tuple[int, int]]) -> bytes:
    """(number, width) in order, the highest bit first."""
    text = "".join(format(number, f"0{width}b") if width else "" for number, width in numbers)
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


SMALL = R.integers(-8, 8, (4, 8)).astype(np.int8)
FEW = R.choice(np.asarray([-3, 0, 5], np.int8), (4, 8))


def indexed(values: np.ndarray) -> bytes:
    uniques = sorted(set(values.reshape(-1).tolist()))
    table = [(one + 8, 4) for one in uniques]
    return bits_of(
        [(len(uniques), 4), *table, *((uniques.index(v), 2) for v in values.reshape(-1))]
    )


def sparse(values: np.ndarray) -> bytes:
    flat = values.reshape(-1).tolist()
    places = [at for at, value in enumerate(flat) if value]
    gaps = np.diff([-1, *places]) - 1
    head = [(5, 8), (len(places), 32), (2, 4), (-3 + 8, 4), (5 + 8, 4)]
    return bits_of(
        [*head, *((int(flat[at] == 5), 1) for at in places), *((int(g), 5) for g in gaps)]
    )


def huffman(values: np.ndarray) -> bytes:
    codes = {253: "0", 0: "10", 5: "110", 256: "111"}
    head = f"{' '.join(map(str, codes))}#{' '.join(codes.values())}#".encode()
    text = "".join(codes[value & 0xFF] for value in [*values.reshape(-1).tolist()]) + codes[256]
    return head + bits_of([(int(bit), 1) for bit in text])


@pytest.mark.parametrize(
    ("values", "data", "fields"),
    [
        (SMALL, packed(SMALL, 4), {}),
        (SMALL, packed(SMALL, 5), {"bits": 5}),
        (FEW, indexed(FEW), {"weightQuantCompressType": "INDEXING"}),
        (FEW, sparse(FEW), {"weightQuantCompressType": "SPARSE"}),
        (FEW, huffman(FEW), {"enableHuffmanCode": True}),
    ],
    ids=["four bits", "five bits", "indexed", "sparse", "huffman"],
)
def test_packed_weights(tmp_path: Path, values: np.ndarray, data: bytes, fields: dict) -> None:
    bits = fields.pop("bits", 4) if "bits" in fields else 4
    model = LiteModel()
    params = [param(0.5, numBits=bits)]
    weight = model.constant(values, quantParams=params, **fields)
    model.tensors[weight]["data"] = list(data)
    product(model, weight)
    (result,) = run_model(read_lite(saved(tmp_path, model)), [X])
    np.testing.assert_allclose(result, X @ (values * 0.5).T, rtol=1e-5, atol=1e-5)


def test_clusters_of_a_weight(tmp_path: Path) -> None:
    model = LiteModel()
    clusters = R.normal(size=256).astype(F32)
    product(model, model.constant(WEIGHT, quantClusters=clusters.tolist()))
    (result,) = run_model(read_lite(saved(tmp_path, model)), [X])
    table = clusters[WEIGHT.astype(int) + 128]
    np.testing.assert_allclose(result, X @ table.T, rtol=1e-4, atol=1e-4)


def entropy_coded(values: np.ndarray, kind: str, count: str = "<u4") -> bytes:
    """Values by 32 states, as entropy_coding.py describes them."""
    uniques, numbers = np.unique(values.reshape(-1), return_inverse=True)
    frequencies = np.ones(len(uniques), int)
    frequencies[-1] += 32 - len(uniques)
    table, at = [0] * 32, 0
    for symbol, frequency in enumerate(frequencies):
        for _ in range(frequency):
            table[at] = symbol
            at = (at + 16 + 4 + 3) % 32
    seen, ranges = frequencies.copy(), []
    for symbol in table:
        width = 5 - (int(seen[symbol]).bit_length() - 1)
        ranges.append(((int(seen[symbol]) << width) - 32, width))
        seen[symbol] += 1
    state, text = 0, ""
    for number in numbers:
        for following, (base, width) in enumerate(ranges):
            if table[following] == number and base <= state < base + (1 << width):
                text += format(state - base, f"0{width}b") if width else ""
                state = following
                break
    text += format(state, "05b")
    words = [text[at : at + 64].ljust(64, "0") for at in range(0, len(text), 64)]
    parts = [
        np.asarray([len(uniques), 5], "<u2").tobytes() + np.uint32(len(words)).tobytes(),
        frequencies.astype(count).tobytes(),
        uniques.astype(kind).tobytes(),
        np.asarray([int(word, 2) for word in words], "<u8").tobytes(),
    ]
    data = b"".join(part.ljust(-(-len(part) // 8) * 8, b"\0") for part in parts)
    return data + bytes([len(text) - 64 * (len(words) - 1)])


FLOATS = R.choice(np.asarray([-1.5, 0, 0.25, 3], F32), (4, 8))


@pytest.mark.parametrize(
    ("values", "form", "data", "scale"),
    [
        (FLOATS, "FSE", entropy_coded(FLOATS, "<f4"), 1),
        (FLOATS, "FSE", entropy_coded(FLOATS, "<f4", "<u2"), 1),
        (FLOATS, "FSE_INFER", entropy_coded(FLOATS, "<f4") + bytes(15), 1),
        (SMALL, "FSE_INT", entropy_coded(SMALL, "<i4"), 0.5),
    ],
    ids=["floats", "early release", "places behind", "integers"],
)
def test_entropy_coded_weights(
    tmp_path: Path, values: np.ndarray, form: str, data: bytes, scale: float
) -> None:
    model = LiteModel()
    fields = {"quantParams": [param(scale)], "weightQuantCompressType": form}
    weight = model.constant(values, "w", **fields)
    model.tensors[weight]["data"] = list(data)
    product(model, weight)
    (result,) = run_model(read_lite(saved(tmp_path, model)), [X])
    np.testing.assert_allclose(result, X @ (values * scale).T, rtol=1e-5, atol=1e-5)


def test_numbers_of_eight_bits_compute_between_quantising_and_dequantising(tmp_path: Path) -> None:
    model = LiteModel()
    given = model.input(X)
    small = model.value(np.int8, (3, 8), quantParams=[param(0.05, 3)])
    result = model.value(np.int8, (3, 4), quantParams=[param(0.5, -7)])
    output = model.value(F32, (3, 4))
    weight = model.constant(WEIGHT, quantParams=[param(0.01)])
    model.node("QuantDTypeCast", [given], [small], {"src_t": 43, "dst_t": 32})
    attributes = {"transpose_b": True, "activation_type": "RELU"}
    model.node("MatMulFusion", [small, weight], [result], attributes, quantType="QUANT_ALL")
    model.node("QuantDTypeCast", [result], [output], {"src_t": 32, "dst_t": 43})
    model.outputs = [output]
    read = read_lite(saved(tmp_path, model))
    kinds = [node.op_type for node in load_mindir(read).model.graph.node]
    assert kinds.count("QuantizeLinear") == 2 and kinds.count("DequantizeLinear") == 3
    stored = (np.round(X / np.float32(0.05)) + 3).clip(-128, 127)
    exact = np.maximum((stored - 3) * 0.05 @ (WEIGHT * 0.01).T, 0)
    wanted = ((np.round(exact / 0.5) - 7).clip(-128, 127) + 7) * 0.5
    (found,) = run_model(read, [X])
    assert np.abs(found - wanted).max() <= 0.5 and np.mean(found == wanted) > 0.9


def branches(folder: Path) -> str:
    """x + 1 where the first input holds, else x * 2."""
    model = LiteModel()
    condition, x = model.input(np.asarray(True)), model.input(X)
    one, two = model.constant(np.asarray(1, F32)), model.constant(np.asarray(2, F32))
    yes, no, closure, result = (model.value(F32, (3, 8)) for _ in range(4))
    model.node("PartialFusion", [x], [yes], {"sub_graph_index": 1})
    model.node("PartialFusion", [x], [no], {"sub_graph_index": 2})
    model.node("Switch", [condition, yes, no], [closure])
    model.node("Call", [closure], [result])
    functions = []
    for primitive, number in (("AddFusion", one), ("MulFusion", two)):
        given, made = model.value(F32, (3, 8)), model.value(F32, (3, 8))
        model.node(primitive, [given, number], [made])
        functions.append((given, made, len(model.nodes) - 1))
    model.graphs = [
        {"inputIndices": [condition, x], "outputIndices": [result], "nodeIndices": [0, 1, 2, 3]},
        *(
            {"inputIndices": [given], "outputIndices": [made], "nodeIndices": [node]}
            for given, made, node in functions
        ),
    ]
    return saved(folder, model)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_chosen_when_the_model_runs(tmp_path: Path, condition: bool) -> None:
    path = branches(tmp_path)
    (result,) = run_model(read_lite(path), [np.asarray(condition), X])
    np.testing.assert_allclose(result, X + 1 if condition else X * 2, rtol=1e-6)


def test_input_shapes_change_as_those_of_mindir(tmp_path: Path) -> None:
    model = LiteModel()
    product(model, model.constant((WEIGHT * 0.5).astype(F32)))
    path = saved(tmp_path, model)
    loaded = load_model(path, shapes=[(5, 8)])
    sizes = [one.dim_value for one in loaded.model.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == [5, 8]
    runner = mslite.Model()
    runner.build_from_file(path, mslite.ModelType.MINDIR_LITE, mslite.Context())
    inputs = runner.get_inputs()
    runner.resize(inputs, [[5, 8]])
    x = R.normal(size=(5, 8)).astype(F32)
    (result,) = runner.predict([mslite.Tensor(x)])
    np.testing.assert_allclose(result.get_data_to_numpy(), x @ (WEIGHT * 0.5).T, rtol=1e-4)


def test_all_that_is_not_supported_is_named_at_once(tmp_path: Path) -> None:
    model = LiteModel()
    x = model.input(X)
    first, last = model.value(F32, (3, 8)), model.value(F32, (3, 8))
    model.node("ActivationGrad", [x, x], [first], {"activation_type": "RELU"})
    model.node("SkipGram", [first], [last])
    model.outputs = [last]
    with pytest.raises(ModelError) as caught:
        load_model(saved(tmp_path, model))
    text = str(caught.value)
    assert "2 primitives are not supported" in text
    assert "Lite.ActivationGrad (1): ActivationGrad_0; instead: convert the network without" in text
    assert "Lite.SkipGram (1): SkipGram_1; instead: handle texts outside" in text


def test_an_image_is_resized_behind_a_normalisation(tmp_path: Path) -> None:
    """The transposes between both cancel out, and the sizes stay known."""
    model, image = LiteModel(), R.normal(size=(1, 2, 3, 4)).astype(F32)
    given, middle = model.input(image), model.value(F32, (1, 2, 3, 4))
    large = model.value(F32, (1, 4, 6, 4))
    ones, zeros = (model.constant(np.full(4, one, F32)) for one in (1, 0))
    parts = [ones, zeros, zeros, ones]
    model.node("FusedBatchNorm", [given, *parts], [middle], {"epsilon": 0.0})
    fields = {"method": "NEAREST", "new_height": 4, "new_width": 6, "format": "NHWC"}
    model.node("Resize", [middle], [large], {**fields, "coordinate_transform_mode": "ASYMMETRIC"})
    model.outputs = [large]
    (result,) = run_model(read_lite(saved(tmp_path, model)), [image])
    np.testing.assert_allclose(result, image.repeat(2, 1).repeat(2, 2), rtol=1e-6)


def test_a_training_graph_runs_the_part_that_its_output_needs() -> None:
    path = Path(__file__).parents[2] / "data" / "ms" / "conv_train_model.ms"
    model = read_lite(str(path))
    shapes = [one.type.shape for one in model.entry.inputs]
    loss = run_model(model, [np.ones(shape, F32) for shape in shapes])
    assert "Lite.ApplyMomentum" in {node.primitive for node in model.entry.nodes}
    assert np.isfinite(loss[0]).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"inputIndex": [99, 0]}, "tensor 99 does not exist: the file has 3"),
        ({"primitive": {}}, "node MatMulFusion_0 has no primitive"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path: Path, change: dict, text: str) -> None:
    model = LiteModel()
    product(model, model.constant((WEIGHT * 0.5).astype(F32)))
    model.nodes[0].update(change)
    with pytest.raises(ModelError, match=text):
        read_lite(saved(tmp_path, model))


def stepped(x: np.ndarray, axes: tuple[int, ...], symmetric: bool) -> np.ndarray:
    """x on the 256 steps between its extremes."""
    low, high = x.min(axes, keepdims=True), x.max(axes, keepdims=True)
    if symmetric:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    step = (high - low) / 255
    zero = 0 if symmetric else np.round(-128 - low / step)
    return (np.clip(np.round(x / step) + zero, -128, 127) - zero) * step


@pytest.mark.parametrize(
    ("attributes", "axes", "symmetric"),
    [
        ({}, (0, 1), False),
        ({"symmetric": True}, (0, 1), True),
        ({"activation_channel": True, "prefer_axis": 0}, (1,), False),
        ({"activation_channel": True, "prefer_axes": [-1]}, (0,), False),
    ],
)
def test_scales_that_the_model_computes(
    tmp_path: Path, attributes: dict, axes: tuple[int, ...], symmetric: bool
) -> None:
    model = LiteModel()
    numbers, moved = model.value(np.int8, (3, 8)), model.value(np.int8, (3, 8))
    weight = model.constant(WEIGHT, quantParams=[param(0.5)])
    y = model.value(F32, (3, 4))
    model.node("DynamicQuant", [model.input(X)], [numbers], attributes)
    model.node("Reshape", [numbers, model.constant(np.asarray([3, 8], np.int32))], [moved])
    kind = {"quantType": "QUANT_DYNAMIC"}
    model.node("MatMulFusion", [moved, weight], [y], {"transpose_b": True}, **kind)
    model.outputs = [y]
    (result,) = run_model(read_lite(saved(tmp_path, model)), [X])
    expected = stepped(X, axes, symmetric) @ (WEIGHT * 0.5).T
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


def test_an_output_whose_scales_the_model_computes_is_refused(tmp_path: Path) -> None:
    model = LiteModel()
    numbers = model.value(np.int8, (3, 8), "numbers")
    model.node("DynamicQuant", [model.input(X)], [numbers])
    model.outputs = [numbers]
    with pytest.raises(ModelError, match="output 'numbers' is quantised by scales that the model"):
        read_lite(saved(tmp_path, model))


class _Lists(LiteModel):
    """A model with lists of rows of three numbers."""

    def list(self) -> int:
        self.tensors.append({"nodeType": 2, "dataType": 17, "dims": [], "name": ""})
        return len(self.tensors) - 1

    def made(self, primitive: str, *inputs: int) -> int:
        result = self.list()
        self.node(f"TensorList{primitive}", inputs, [result], {"element_dtype": 43})
        return result


def test_lists_of_tensors_in_a_loop(tmp_path: Path) -> None:
    """A loop takes one row after another of a list, and puts it, doubled, into another."""
    model, row = _Lists(), [3]
    x, most = model.input(np.ones((4, 3), F32)), model.input(np.asarray(0, np.int32))
    shape, length, nought, one = (
        model.constant(np.asarray(value, np.int32)) for value in (row, 4, 0, 1)
    )
    closures = [model.value(F32) for _ in range(5)]
    result, y = model.list(), model.value(F32, (4, 3))
    given, empty = model.made("FromTensor", x, shape), model.made("Reserve", shape, length)
    state = [nought, most, given, empty]
    model.node("PartialFusion", state, closures[:1], {"sub_graph_index": 1})
    model.node("Call", closures[:1], [result])
    model.node("TensorListStack", [result, shape], [y], {"element_dtype": 43})
    ends = [len(model.nodes)]
    turn, limit, goes_on = model.value(np.int32), model.value(np.int32), model.value(bool)
    tested = [turn, limit, model.list(), model.list()]
    model.node("Less", [turn, limit], [goes_on])
    model.node("PartialFusion", tested, closures[1:2], {"sub_graph_index": 2})
    model.node("PartialFusion", tested[3:], closures[2:3], {"sub_graph_index": 3})
    model.node("Switch", [goes_on, *closures[1:3]], closures[3:4])
    after = model.list()
    model.node("Call", closures[3:4], [after])
    ends.append(len(model.nodes))
    inside = [model.value(np.int32), model.value(np.int32), model.list(), model.list()]
    item, double, following = model.value(F32, row), model.value(F32, row), model.value(np.int32)
    model.node("TensorListGetItem", [inside[2], inside[0], shape], [item], {"element_dtype": 43})
    model.node("AddFusion", [item, item], [double])
    longer = model.made("SetItem", inside[3], inside[0], double)
    model.node("AddFusion", [inside[0], one], [following])
    again = [following, *inside[1:3], longer]
    model.node("PartialFusion", again, closures[4:], {"sub_graph_index": 1})
    last, end = model.list(), model.list()
    model.node("Call", closures[4:], [last])
    ends.append(len(model.nodes))
    graphs = [(model.inputs, y), (tested, after), (inside, last), ([end], end)]
    begins = [0, *ends]
    model.graphs = [
        {
            "inputIndices": list(inputs),
            "outputIndices": [output],
            "nodeIndices": list(range(begins[at], ends[at])) if at < 3 else [],
        }
        for at, (inputs, output) in enumerate(graphs)
    ]
    model.outputs = [y]
    path = saved(tmp_path, model)
    rows = np.arange(12, dtype=F32).reshape(4, 3)
    for count in (0, 2, 4):
        (found,) = run_model(read_lite(path), [rows, np.asarray(count, np.int32)])
        np.testing.assert_array_equal(found, 2 * rows * (np.arange(4) < count)[:, None])


def test_a_list_of_elements_of_open_shape_is_refused(tmp_path: Path) -> None:
    model = _Lists()
    shape, count = (model.constant(np.asarray(one, np.int32)) for one in ([-1, 3], 4))
    found, y = model.made("Reserve", shape, count), model.value(F32, (4, 1, 3))
    model.node("TensorListStack", [found, shape], [y], {"element_dtype": 43})
    model.outputs = [y]
    with pytest.raises(ModelError, match=r"shape \[-1, 3\] of the elements of a list has to be"):
        load_model(saved(tmp_path, model))
