"""The gRPC form of the protocol as clients see it, from `rankmesh serve` with three models."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import numpy as np
import pytest
from processes import PATIENCE, wait_until
from served_grpc import GrpcClient, connected, infer_message
from served_http import serving
from served_models import TYPES, doubler, echo, typed

from rankmesh.orchestrator.server.grpc.protocol import health, inference, reflection
from rankmesh.orchestrator.server.grpc.protocol.descriptors import file_named

Code = grpc.StatusCode
X = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.full(1, 0.5, np.float32)
BOTH = {"x": X, "bias": BIAS}
LARGE = 2_000_000
WIDE = ("BOOL", "INT64", "UINT64", "FP32", "FP64")
"""Datatypes that have typed contents of their own."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("models")
    settings = folder / "serve.yaml"
    paths = [doubler(folder), echo(folder, LARGE), typed(folder)]
    settings.write_text("models:\n" + "".join(f"  - path: {path}\n" for path in paths))
    with serving(settings, "--grpc-port", "0", "--max-body-bytes", "9000000") as server:
        yield server.grpc_port


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[GrpcClient]:
    with connected(port) as made:
        yield made


def refusal(client: GrpcClient, message: Any, **options: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        client.send("ModelInfer", message, **options)
    return raised.value.code(), raised.value.details()


def test_server_and_models_are_described(client: GrpcClient) -> None:
    assert client.call("ServerLive").live and client.call("ServerReady").ready
    assert client.call("ModelReady", name="doubler", version="1").ready
    assert not client.call("ModelReady", name="bert").ready
    assert client.call("ServerMetadata").name == "rankmesh"
    told = client.call("ModelMetadata", name="doubler")
    assert [(one.name, one.datatype, [*one.shape]) for one in told.inputs] == [
        ("x", "FP32", [-1, 4]),
        ("bias", "FP32", [1]),
    ]
    config = client.call("ModelConfig", name="types").config
    assert [one.data_type for one in config.input][-2:] == [12, 14]  # TYPE_FP64, TYPE_BF16
    index = client.call("RepositoryIndex").models
    assert [(one.name, one.state) for one in index] == [
        ("doubler", "READY"),
        ("echo", "READY"),
        ("types", "READY"),
    ]


@pytest.mark.parametrize(
    ("connections", "calls", "method", "message"),
    [
        pytest.param(1, 800, "ModelInfer", infer_message("doubler", BOTH), id="of_a_connection"),
        pytest.param(7, 300, "ServerLive", inference.ServerLiveRequest(), id="of_many_connections"),
    ],
)
def test_calls_at_once_wait_and_are_answered(
    port: int, connections: int, calls: int, method: str, message: Any
) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(port)) for _ in range(connections)]
        methods = [one.method(method) for one in opened]
        waiting = [one.future(message) for _ in range(calls) for one in methods]
        assert Counter(one.code() for one in waiting) == {Code.OK: connections * calls}


def test_raw_contents_of_every_datatype(client: GrpcClient) -> None:
    message = inference.ModelInferRequest(model_name="types")
    arrays = {name: np.array([0, 1, 1], kind) for name, kind in TYPES.items()}
    for name, array in arrays.items():
        message.inputs.add(name=name.lower(), datatype=name, shape=[3])
        message.raw_input_contents.append(array.tobytes())
    for message.id in ("7", "", ""):
        answer = client.send("ModelInfer", message)
        assert (answer.model_name, answer.model_version, answer.id) == ("types", "1", message.id)
        for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
            assert output.name == f"{output.datatype.lower()}_out" and [*output.shape] == [3]
            assert raw == arrays[output.datatype].tobytes()


def test_typed_contents(client: GrpcClient) -> None:
    message = inference.ModelInferRequest(model_name="doubler")
    message.inputs.add(name="bias", datatype="FP32", shape=[1]).contents.fp32_contents.append(0.5)
    given = message.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    given.contents.fp32_contents.extend(X.ravel())
    message.outputs.add(name="y")
    (raw,) = client.send("ModelInfer", message).raw_output_contents
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), 2 * X.ravel() + 0.5)
    given.contents.fp32_contents.pop()
    assert refusal(client, message) == (
        Code.INVALID_ARGUMENT,
        "the input 'x' has 7 elements in `fp32_contents`, expected 8 for the shape [2, 4].",
    )


@pytest.mark.parametrize(
    ("datatype", "contents", "text"),
    [
        ("INT8", {"int_contents": [1, 2, 200]}, "the input 'int8' has 200, expected INT8."),
        ("UINT16", {"uint_contents": [1 << 16, 0, 0]}, "has 65536, expected UINT16"),
        ("BF16", {"fp32_contents": [1, 2, 3]}, "send it in raw_input_contents"),
        ("FP16", {"fp32_contents": [1, 2, 3]}, "send it in raw_input_contents"),
        ("BYTES", {"bytes_contents": [b"", b"", b""]}, "it takes no BYTES"),
    ],
)
def test_typed_contents_that_do_not_fit(
    client: GrpcClient, datatype: str, contents: dict[str, Any], text: str
) -> None:
    message = inference.ModelInferRequest(model_name="types")
    for name in TYPES:
        given = message.inputs.add(name=name.lower(), datatype=name, shape=[3])
        if name == datatype or (datatype == "BYTES" and name == "BOOL"):
            given.datatype = datatype
            given.contents.MergeFrom(inference.InferTensorContents(**contents))
        elif name not in ("FP16", "BF16"):
            wide = name if name in WIDE else name.rstrip("0123456789")
            getattr(given.contents, f"{wide.lower()}_contents").extend([1] * 3)
    code, told = refusal(client, message)
    assert code == Code.INVALID_ARGUMENT and text in told


def test_a_large_tensor_comes_back_and_a_larger_one_is_refused(client: GrpcClient) -> None:
    array = np.random.default_rng(0).random(LARGE, np.float32)
    answer = client.send("ModelInfer", infer_message("echo", {"x": array}))
    assert answer.raw_output_contents[0] == array.tobytes()
    larger = infer_message("echo", {"x": np.zeros(2_300_000, np.float32)})
    assert refusal(client, larger)[0] == Code.RESOURCE_EXHAUSTED
    assert client.call("ServerLive").live


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_messages_may_be_compressed(client: GrpcClient, how: grpc.Compression) -> None:
    message = infer_message("doubler", BOTH)
    message.outputs.add(name="y")
    (raw,) = client.send("ModelInfer", message, compression=how).raw_output_contents
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), 2 * X.ravel() + 0.5)
    answers = [one.infer_response.id for one in client.stream([message] * 3, compression=how)]
    assert answers == [""] * 3
    wish = inference.ModelMetadataRequest(name="doubler")
    assert [*client.send("ModelMetadata", wish, compression=how).versions] == ["1"]


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_bounded_by_what_it_was(
    client: GrpcClient, how: grpc.Compression
) -> None:
    message = infer_message("doubler", {"x": np.zeros((600_000, 4), np.float32), "bias": BIAS})
    code, text = refusal(client, message, compression=how)
    assert code is Code.RESOURCE_EXHAUSTED and "inflated, it has more than 9000000 bytes" in text
    with pytest.raises(grpc.RpcError) as raised:
        list(client.stream([message], compression=how))
    assert raised.value.code() is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("sent", [b"\x1f\x8b", b"\x78\x9c", gzip.compress(b"x" * 99, mtime=0)[:-9]])
def test_damaged_gzip_is_refused(client: GrpcClient, sent: bytes) -> None:
    code, text = refusal(client, sent)
    assert code is Code.INVALID_ARGUMENT and "damaged gzip or deflate" in text


def test_classes_and_outputs_that_are_asked_for(client: GrpcClient) -> None:
    message = infer_message("doubler", BOTH)
    message.outputs.add(name="s")
    message.outputs.add(name="y").parameters["classification"].int64_param = 2
    answer = client.send("ModelInfer", message)
    assert [(one.name, one.datatype, [*one.shape]) for one in answer.outputs] == [
        ("s", "FP32", [1]),
        ("y", "BYTES", [2, 2]),
    ]
    assert answer.raw_output_contents[1].startswith(b"\x0a\0\0\0" + b"6.500000:3")


def without(name: str) -> dict[str, np.ndarray]:
    return {key: array for key, array in BOTH.items() if key != name}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sequence_id", {"int64_param": 7}, "sequence_id: models keep no state"),
        ("sequence_id", {"string_param": "a"}, "sequence_id: models keep no state"),
        ("sequence_start", {"bool_param": True}, "sequence_start: models keep no state"),
        ("priority", {"string_param": "high"}, "priority: got 'high', expected a whole number"),
        ("timeout", {"bool_param": True}, "timeout: got True"),
        ("unknown", {"string_param": "it is ignored"}, ""),
        ("sequence_id", {"int64_param": 0}, ""),
        ("sequence_end", {"bool_param": False}, ""),
        ("triton_enable_empty_final_response", {"bool_param": True}, ""),
    ],
)
def test_parameters_are_refused_or_ignored(
    client: GrpcClient, name: str, value: dict[str, Any], text: str
) -> None:
    parameter = inference.InferParameter(**value)
    message = infer_message("doubler", BOTH, parameters={name: parameter})
    if text:
        code, told = refusal(client, message)
        assert code == Code.INVALID_ARGUMENT and text in told
    else:
        assert client.send("ModelInfer", message).model_name == "doubler"


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (infer_message("bert", BOTH), Code.NOT_FOUND, "there is no model 'bert'"),
        (infer_message("doubler", BOTH, model_version="9"), Code.NOT_FOUND, "no version '9'"),
        (infer_message("doubler", without("x")), Code.INVALID_ARGUMENT, "got the inputs ['bias']"),
        (infer_message("doubler", BOTH, datatype="INT32"), Code.INVALID_ARGUMENT, "FP32"),
        (infer_message("doubler", BOTH, datatype="BYTES"), Code.INVALID_ARGUMENT, "takes no BYTES"),
        (infer_message("doubler", {**BOTH, "x": X.T}), Code.INVALID_ARGUMENT, "[-1, 4]"),
        (b"\x3a\xff\xff", Code.INVALID_ARGUMENT, "3 bytes that are no ModelInferRequest"),
        (b"\x0a\x02\xff\xff", Code.INVALID_ARGUMENT, "4 bytes that are no ModelInferRequest"),
    ],
)
def test_wrong_requests_are_refused(
    client: GrpcClient, message: Any, code: grpc.StatusCode, text: str
) -> None:
    found, told = refusal(client, message)
    assert found == code and text in told


def test_raw_contents_that_do_not_fit_are_refused(client: GrpcClient) -> None:
    message = infer_message("doubler", BOTH)
    message.raw_input_contents[0] = b"abc"
    assert "has 3 bytes, expected 32" in refusal(client, message)[1]
    del message.raw_input_contents[0]
    assert "got 1 raw_input_contents for 2 inputs" in refusal(client, message)[1]
    message = infer_message("doubler", BOTH)
    message.inputs[0].contents.fp32_contents.append(1)
    assert "raw and typed contents" in refusal(client, message)[1]
    message = infer_message("doubler", BOTH)
    message.parameters["sequence_id"].int64_param = 4
    assert "no state between the requests" in refusal(client, message)[1]
    message = infer_message("doubler", BOTH)
    message.inputs[0].parameters["shared_memory_region"].string_param = "key"
    code, told = refusal(client, message)
    assert code == Code.UNIMPLEMENTED and "key" not in told


def test_what_is_not_offered_is_told(client: GrpcClient) -> None:
    for method, fields in (
        ("SystemSharedMemoryRegister", {"name": "a", "key": "/b", "byte_size": 4}),
        ("CudaSharedMemoryRegister", {"name": "a"}),
    ):
        with pytest.raises(grpc.RpcError, match="not offered by this server"):
            client.call(method, **fields)
    assert not client.call("SystemSharedMemoryStatus").regions
    assert not client.call("CudaSharedMemoryStatus").regions
    client.call("SystemSharedMemoryUnregister")
    assert client.call("TraceSetting").settings["trace_level"].value == ["OFF"]
    with pytest.raises(grpc.RpcError, match="no model 'bert'"):
        client.call("TraceSetting", model_name="bert")
    assert client.call("LogSettings").settings["log_error"].bool_param


def test_a_stream_keeps_its_order_and_goes_on_after_an_error(client: GrpcClient) -> None:
    def requests() -> Iterator[Any]:
        for number in range(200):
            arrays = {"x": X * number, "bias": BIAS}
            name = "bert" if number == 100 else "doubler"
            yield infer_message(name, arrays, id=str(number))

    answers = list(client.stream(requests()))
    assert [one.infer_response.id for one in answers] == [str(number) for number in range(200)]
    assert "no model 'bert'" in answers[100].error_message
    for number in (0, 99, 101, 199):
        answer = answers[number].infer_response
        assert not answers[number].error_message
        assert answer.parameters["triton_final_response"].bool_param
        y = np.frombuffer(answer.raw_output_contents[0], np.float32)
        np.testing.assert_array_equal(y, 2 * number * X.ravel() + 0.5)


def test_a_stream_may_ask_to_end_at_an_error(client: GrpcClient) -> None:
    requests = [infer_message("doubler", BOTH), infer_message("bert", BOTH)]
    answers = client.stream(requests, metadata=(("triton_grpc_error", "true"),))
    assert next(answers).infer_response.model_name == "doubler"
    with pytest.raises(grpc.RpcError) as raised:
        next(answers)
    assert raised.value.code() == Code.NOT_FOUND


def test_the_name_of_a_request_may_stand_in_its_metadata(client: GrpcClient) -> None:
    message = infer_message("doubler", BOTH)
    answer = client.send("ModelInfer", message, metadata=(("x-request-id", "abc"),))
    assert answer.id == "abc"


FORMS: list[dict[str, Any]] = [
    {},
    {"model_version": "1"},
    {"parameters": {"priority": inference.InferParameter(uint64_param=3)}},
    {"parameters": {"timeout": inference.InferParameter(int64_param=9_000_000)}},
    {"outputs": [{"name": "s"}, {"name": "y"}]},
    {"outputs": [{"name": "y"}]},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [0, 2, 500])
def test_requests_that_repeat_are_answered_like_others(
    client: GrpcClient, form: dict[str, Any], rows: int
) -> None:
    for number in range(3):  # the first is read by protobuf, and so is each with an id
        x = np.full((rows, 4), number, np.float32)
        for arrays in ({"x": x, "bias": BIAS}, {"bias": BIAS + number, "x": x}):
            message = infer_message("doubler", arrays, **form)
            repeated = client.send("ModelInfer", message)
            named = client.send("ModelInfer", message, metadata=(("x-request-id", "7"),))
            (streamed,) = client.stream([message])
            message.id = "7"
            read = client.send("ModelInfer", message)
            assert named == read
            read.id = ""
            assert repeated == read
            read.parameters["triton_final_response"].bool_param = True
            assert streamed.infer_response == read


def test_a_request_that_repeats_in_other_bytes_is_another(client: GrpcClient) -> None:
    message = infer_message("doubler", BOTH)
    expected = client.send("ModelInfer", message)
    for field, name in (("model_name", "doublet"), ("inputs", "bia2")):
        other = infer_message("doubler", BOTH)
        if field == "inputs":
            other.inputs[1].name = name
        else:
            other.model_name = name
        assert len(other.SerializeToString()) == len(message.SerializeToString())
        assert refusal(client, other)[0] in (Code.NOT_FOUND, Code.INVALID_ARGUMENT)
    assert client.send("ModelInfer", message) == expected


def test_statistics_count_requests(client: GrpcClient) -> None:
    def counted() -> int:
        (told,) = client.call("ModelStatistics", name="doubler").model_stats
        assert told.inference_stats.success.count == told.inference_count
        return told.inference_count

    before = counted()
    client.send("ModelInfer", infer_message("doubler", BOTH))
    wait_until(lambda: counted() == before + 1, "the count")


def test_health_has_the_server_and_its_models(client: GrpcClient) -> None:
    serving_status = health.HealthCheckResponse.SERVING
    for service in ("", "inference.GRPCInferenceService", "doubler"):
        assert client.health(service) == serving_status
    with pytest.raises(grpc.RpcError) as raised:
        client.health("bert")
    assert raised.value.code() == Code.NOT_FOUND


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_tells_the_services_and_their_messages(client: GrpcClient, version: str) -> None:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    call = client.channel.stream_stream(
        path,
        reflection.ServerReflectionRequest.SerializeToString,
        reflection.ServerReflectionResponse.FromString,
    )
    asked = [
        reflection.ServerReflectionRequest(list_services="*"),
        reflection.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
        reflection.ServerReflectionRequest(file_by_filename="inference.proto"),
        reflection.ServerReflectionRequest(file_containing_symbol="no.Such"),
    ]
    listed, symbol, file, unknown = call(iter(asked), timeout=PATIENCE)
    names = [one.name for one in listed.list_services_response.service]
    assert names[:2] == ["inference.GRPCInferenceService", "grpc.health.v1.Health"]
    assert symbol.file_descriptor_response.file_descriptor_proto == [
        file_named("health.proto").serialized_pb
    ]
    assert file.original_request == asked[2] and file.file_descriptor_response
    assert unknown.error_response.error_code == 5
