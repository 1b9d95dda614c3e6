"""Tensor, TensorMeta, DataType and Format: every row of what scripts may see."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rankmesh import DataType, Format, Tensor, TensorMeta

pytestmark = pytest.mark.pure

NUMPY = {
    np.bool_: "BOOL",
    np.int8: "INT8",
    np.int16: "INT16",
    np.int32: "INT32",
    np.int64: "INT64",
    np.uint8: "UINT8",
    np.uint16: "UINT16",
    np.uint32: "UINT32",
    np.uint64: "UINT64",
    np.float16: "FLOAT16",
    np.float32: "FLOAT32",
    np.float64: "FLOAT64",
}


def test_data_types_have_their_numbers():
    assert {t.name: t.value for t in DataType} == {
        "UNKNOWN": 0,
        "BOOL": 30,
        "INT8": 32,
        "INT16": 33,
        "INT32": 34,
        "INT64": 35,
        "UINT8": 37,
        "UINT16": 38,
        "UINT32": 39,
        "UINT64": 40,
        "FLOAT16": 42,
        "FLOAT32": 43,
        "FLOAT64": 44,
        "INVALID": 2147483647,
    }


def test_formats_have_their_numbers():
    names = (
        "DEFAULT NCHW NHWC NHWC4 HWKC HWCK KCHW CKHW KHWC CHWK HW HW4 NC NC4 NC4HW4 - NCDHW NWC "
        "NCW NDHWC "
        "NC8HW8"
    ).split()
    assert {f.name: f.value for f in Format} == {n: i - 1 for i, n in enumerate(names) if n != "-"}


def test_an_empty_tensor():
    tensor = Tensor()
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.format) == (
        "",
        DataType.FLOAT32,
        [],
        Format.NCHW,
    )
    assert (tensor.element_num, tensor.data_size, tensor.device) == (1, 4, "None:-1")


def test_str_is_seven_lines():
    tensor = Tensor(np.zeros((1, 3, 2, 2), np.float32))
    tensor.name = "tensor1"
    assert str(tensor).splitlines() == [
        "name: tensor1,",
        "dtype: DataType.FLOAT32,",
        "shape: [1, 3, 2, 2],",
        "format: Format.NCHW,",
        "element_num: 12,",
        "data_size: 48.",
        "device: None:-1.",
    ]


def test_a_meta_is_plain_attributes():
    meta = TensorMeta()
    assert (meta.name, meta.dtype, meta.shape, meta.format) == (
        "",
        DataType.UNKNOWN,
        [],
        Format.DEFAULT,
    )
    assert (meta.element_num, meta.data_size) == (0, 0)
    assert str(meta).splitlines() == [
        "name: ,",
        "dtype: DataType.UNKNOWN,",
        "shape: [],",
        "format: Format.DEFAULT,",
        "element_num: 0,",
        "data_size: 0.",
    ]
    meta.shape = [1]
    assert meta.shape == [1]


@pytest.mark.parametrize("dtype", NUMPY, ids=lambda dtype: dtype.__name__)
def test_each_numpy_type_has_its_data_type(dtype: type):
    tensor = Tensor(np.ones((2, 3), dtype))
    assert tensor.dtype is DataType[NUMPY[dtype]]
    assert (tensor.shape, tensor.element_num, tensor.data_size) == (
        [2, 3],
        6,
        6 * np.dtype(dtype).itemsize,
    )
    assert tensor.get_data_to_numpy().dtype == dtype
    assert Tensor(shape=[2], dtype=DataType[NUMPY[dtype]]).get_data_to_numpy().dtype == dtype


def test_shape_and_dtype_make_a_tensor_without_data():
    tensor = Tensor(shape=(2, 3), dtype=DataType.INT64)
    assert (tensor.shape, tensor.dtype, tensor.data_size) == ([2, 3], DataType.INT64, 48)
    view = tensor.get_data_to_numpy()
    view[1, 2] = 7
    assert tensor.get_data_to_numpy()[1, 2] == 7


@pytest.mark.parametrize(
    "arguments", [{"shape": [2, 3]}, {"dtype": DataType.INT8}], ids=["shape", "dtype"]
)
def test_one_of_shape_and_dtype_alone_counts_for_nothing(arguments: dict):
    assert (Tensor(**arguments).shape, Tensor(**arguments).dtype) == ([], DataType.FLOAT32)


def test_an_array_is_not_copied():
    array = np.zeros((2, 3), np.float32)
    tensor = Tensor(array)
    array[0, 1] = 5
    assert tensor.get_data_to_numpy()[0, 1] == 5
    assert np.shares_memory(tensor.get_data_to_numpy(), array)
    assert (
        tensor.get_data_to_numpy() is not tensor.get_data_to_numpy()
    )  # reshaping one reshapes no other


def test_an_array_in_another_order_is_made_contiguous():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    data = Tensor(array).get_data_to_numpy()
    assert data.flags.c_contiguous and not np.shares_memory(data, array)
    np.testing.assert_array_equal(data, array)


def test_a_number_keeps_its_zero_dimensions():
    assert Tensor(np.array(5, np.int32)).shape == []
    assert Tensor(np.array(5, np.int32)).get_data_to_numpy() == 5


def test_a_tensor_on_a_tensor_shares_data_but_not_the_name():
    first = Tensor(np.zeros(3, np.int32))
    first.name = "first"
    second = Tensor(first)
    assert (second.name, second.shape, second.dtype) == ("", [3], DataType.INT32)
    assert np.shares_memory(first.get_data_to_numpy(), second.get_data_to_numpy())


def test_what_holds_an_array_keeps_its_type_shape_and_format(caplog: pytest.LogCaptureFixture):
    tensor = Tensor(np.zeros((2, 3), np.float32))
    tensor.shape, tensor.dtype, tensor.format = [3, 2], DataType.INT32, Format.NHWC
    assert (tensor.shape, tensor.dtype, tensor.format) == ([2, 3], DataType.FLOAT32, Format.NCHW)
    assert [record.name for record in caplog.records] == ["rankmesh"] * 3
    tensor.name = "free"
    assert tensor.name == "free"


def test_bfloat16_has_no_data_type_but_works():
    tensor = Tensor(np.ones(4, ml_dtypes.bfloat16))
    assert (tensor.dtype, tensor.data_size) == (None, 8)


ARRAY = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"tensor": [1.0]}, "tensor must be MindSpore Lite's Tensor._tensor or numpy ndarray"),
        ({"tensor": np.zeros(2, np.complex64)}, "Unsupported numpy dtype value"),
        ({"tensor": np.array(["a"])}, "Unsupported numpy dtype value"),
        ({"tensor": np.array([None])}, "Unsupported numpy dtype value"),
        ({"tensor": ARRAY, "shape": [3, 2]}, "user set shape is not equal numpy shape"),
        ({"tensor": ARRAY, "dtype": DataType.INT32}, "user set dtype is not equal numpy dtype"),
        ({"tensor": Tensor(ARRAY), "shape": [3, 2]}, "user set shape is not equal tensor shape"),
        (
            {"tensor": Tensor(ARRAY), "dtype": DataType.INT32},
            "user set dtype is not equal tensor dtype",
        ),
        (
            {"shape": 3, "dtype": DataType.INT32},
            "shape must be list or tuple, but got <class 'int'>.",
        ),
        ({"shape": [2, "3"]}, "shape element must be int, but got <class 'str'> at index 1."),
        ({"shape": [np.int64(2)]}, "shape element must be int"),
        ({"dtype": "float32"}, "dtype must be DataType, but got <class 'str'>."),
        ({"device": 0}, "device must be str"),
        ({"device": "ascend:x"}, "device must be 'ascend:index'"),
        ({"device": "ascend:"}, "device must be 'ascend:index'"),
        ({"device": "gpu"}, "now only support ascend device."),
        ({"device": "ascend:-1"}, "device id should >= 0."),
    ],
)
def test_bad_arguments_are_type_errors(arguments: dict, text: str):
    with pytest.raises(TypeError) as caught:
        Tensor(**arguments)
    assert text in str(caught.value)


def test_agreeing_shape_and_dtype_pass():
    assert Tensor(ARRAY, shape=(2, 3), dtype=DataType.FLOAT32).shape == [2, 3]


@pytest.mark.parametrize(
    ("given", "shown"), [("ascend", "ascend:0"), ("ascend:3", "ascend:3"), (None, "None:-1")]
)
def test_device(given: str | None, shown: str):
    tensor = Tensor(ARRAY, device=given)
    assert tensor.device == shown
    assert str(tensor).endswith(f"device: {shown}.")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("name", 1, "name must be str, but got <class 'int'>."),
        ("dtype", 43, "dtype must be DataType"),
        ("shape", (1, 2), "shape must be list"),
        ("shape", [1, 2.0], "shape element must be int, but got <class 'float'> at index 1."),
        ("format", "NCHW", "format must be Format"),
    ],
)
def test_bad_properties_are_type_errors(name: str, value: object, text: str):
    with pytest.raises(TypeError) as caught:
        setattr(Tensor(), name, value)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["element_num", "data_size", "device"])
def test_read_only_properties(name: str):
    with pytest.raises(AttributeError):
        setattr(Tensor(), name, 1)


def test_properties_of_a_tensor_without_data():
    tensor = Tensor()
    tensor.name, tensor.shape, tensor.dtype, tensor.format = (
        "x",
        [2, 3],
        DataType.FLOAT16,
        Format.NHWC,
    )
    assert (tensor.name, tensor.shape, tensor.dtype, tensor.format) == (
        "x",
        [2, 3],
        DataType.FLOAT16,
        Format.NHWC,
    )
    assert (tensor.element_num, tensor.data_size) == (6, 12)
    tensor.shape.append(9)
    assert tensor.shape == [2, 3]


@pytest.mark.parametrize(
    ("shape", "count", "got"),
    [
        ([-1, 3], 0, (0, 3)),
        ([2, -1], 0, (2, 0)),
        ([0, 3], 0, (0, 3)),
        ([], 1, ()),
        ([2, 2], 4, (2, 2)),
    ],
)
def test_unknown_dimensions_have_no_elements(shape: list[int], count: int, got: tuple[int, ...]):
    tensor = Tensor(shape=shape, dtype=DataType.FLOAT32)
    assert (tensor.element_num, tensor.data_size) == (count, 4 * count)
    assert tensor.get_data_to_numpy().shape == got


def test_data_is_taken_without_a_copy_and_the_tensor_keeps_its_shape():
    tensor, flat = Tensor(shape=[2, 3], dtype=DataType.FLOAT32), np.arange(6, dtype=np.float32)
    assert tensor.set_data_from_numpy(flat) is None
    assert (tensor.shape, tensor.get_data_to_numpy().shape) == ([2, 3], (2, 3))
    flat[5] = 50
    assert tensor.get_data_to_numpy()[1, 2] == 50


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([1.0], TypeError, "numpy_obj must be numpy.ndarray,"),
        (np.zeros(3, np.complex64), TypeError, "Unsupported numpy dtype value"),
        (
            np.zeros(6, np.int32),
            RuntimeError,
            "data type not equal! Numpy type: int32, Tensor type: DataType.FLOAT32",
        ),
        (
            np.zeros(5, np.float32),
            RuntimeError,
            "data size not equal! Numpy size: 20, Tensor size: 24",
        ),
    ],
)
def test_bad_data(data: object, error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        Tensor(shape=[2, 3], dtype=DataType.FLOAT32).set_data_from_numpy(data)
    assert text in str(caught.value)


def test_unknown_attributes_may_be_set():
    tensor = Tensor()
    tensor.anything = 1
    assert tensor.anything == 1


def test_the_names_of_older_scripts():
    tensor = Tensor()
    tensor.set_tensor_name("x")
    tensor.set_data_type(DataType.INT32)
    tensor.set_shape([2, 3])
    tensor.set_format(Format.NHWC)
    assert (
        tensor.get_tensor_name(),
        tensor.get_data_type(),
        tensor.get_shape(),
        tensor.get_format(),
    ) == ("x", DataType.INT32, [2, 3], Format.NHWC)
    assert (tensor.get_element_num(), tensor.get_data_size()) == (6, 24)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("set_tensor_name", "tensor_name must be str"),
        ("set_data_type", "data_type must be DataType"),
        ("set_shape", "shape must be list"),
        ("set_format", "tensor_format must be Format"),
    ],
)
def test_the_checks_of_older_scripts(method: str, text: str):
    with pytest.raises(TypeError) as caught:
        getattr(Tensor(), method)(1.5)
    assert text in str(caught.value)
