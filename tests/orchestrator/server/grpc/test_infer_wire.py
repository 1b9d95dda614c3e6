"""The wire format of inference requests: what protobuf reads is read, whatever the bytes."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import InputError
from rankmesh.orchestrator.server.grpc.infer_wire import (
    decoded,
    encoded,
    identified,
    output_frames,
    streamed,
)
from rankmesh.orchestrator.server.grpc.protocol.inference import (
    ModelInferRequest,
    ModelInferResponse,
    ModelStreamInferResponse,
)

pytestmark = pytest.mark.pure
TENSORS = st.lists(st.sampled_from([b"", b"x", b"ab" * 100, bytes(20_000)]), max_size=3)


@given(st.text(max_size=20), TENSORS, TENSORS)
def test_a_request_is_what_protobuf_reads(
    name: str, tensors: list[bytes], more: list[bytes]
) -> None:
    message = ModelInferRequest(model_name=name, id="7", raw_input_contents=tensors)
    message.parameters["timeout"].int64_param = 5
    message.inputs.add(name="x", datatype="FP32", shape=[2, 3])
    late = ModelInferRequest(raw_input_contents=more, model_version="2")
    body = message.SerializeToString() + late.SerializeToString()
    _, head, raw, _ = decoded(body)
    assert [bytes(one) for one in raw] == tensors + more
    whole = ModelInferRequest.FromString(body)
    del whole.raw_input_contents[:]
    assert head == whole


@given(TENSORS, st.booleans())
def test_the_bytes_around_the_raw_contents_and_these_are_the_whole_message(
    tensors: list[bytes], more: bool
) -> None:
    body = ModelInferRequest(model_name="m", raw_input_contents=tensors).SerializeToString()
    body += ModelInferRequest(id="7").SerializeToString() if more else b""
    found = decoded(body)
    parts = dict(found.around())
    for start, tensor in zip(found.starts, found.raw, strict=True):
        if tensor:
            parts[start] = bytes(tensor)
    assert b"".join(parts[start] for start in sorted(parts)) == body


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.text(max_size=20))
def test_the_frames_of_a_response_are_as_protobuf_has_them(tensors: list[bytes], name: str) -> None:
    head = ModelInferResponse(model_name="m")
    frames = output_frames(head, [len(tensor) for tensor in tensors])
    plain = b"".join(frame + tensor for frame, tensor in zip(frames, tensors, strict=True))
    assert plain == encoded(head, tensors)
    head.id = name
    head.raw_output_contents.extend(tensors)
    assert ModelInferResponse.FromString(identified(plain, name)) == head


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_protobuf_reads_them_or_refused(body: bytes) -> None:
    try:
        expected = ModelInferRequest.FromString(body)
    except DecodeError:
        with pytest.raises(InputError, match="that are no ModelInferRequest"):
            decoded(body)
        return
    _, head, raw, _ = decoded(body)
    assert [bytes(one) for one in raw] == list(expected.raw_input_contents)
    assert (head.model_name, head.inputs) == (expected.model_name, expected.inputs)


def test_a_field_without_a_length_that_a_later_version_may_have_is_passed_over() -> None:
    body = ModelInferRequest(model_name="m", raw_input_contents=[b"abc"]).SerializeToString()
    _, head, raw, _ = decoded(bytes([15 << 3, 1]) + body)
    assert (head.model_name, list(raw)) == ("m", [b"abc"])


@given(TENSORS)
def test_a_response_is_one_that_protobuf_reads(tensors: list[bytes]) -> None:
    head = ModelInferResponse(model_name="m", id="7")
    body = encoded(head, tensors)
    head.raw_output_contents.extend(tensors)
    assert ModelInferResponse.FromString(body) == head
    head.parameters["triton_final_response"].bool_param = True
    assert ModelStreamInferResponse.FromString(streamed(body)).infer_response == head


def test_the_messages_are_in_no_pool_that_other_libraries_share() -> None:
    with pytest.raises(KeyError):
        Default().FindMessageTypeByName("inference.ServerLiveRequest")
    assert ModelInferRequest.DESCRIPTOR.full_name == "inference.ModelInferRequest"


def field(number: int, value: bytes) -> bytes:
    size, length = bytearray(), len(value)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + value


SMALL = b"\x22\x00" * (1 << 20)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (field(6, b"") * 10_001, "more than 10000 fields"),
        (field(7, b"") * 10_001, "more than 10000 fields"),
        (field(5, SMALL), "more than 10000 fields"),
        (field(4, SMALL), "bytes beside its tensors"),
        (field(5, field(3, b"\x01" * (2 << 20))), "bytes beside its tensors"),
        (b"\x78\x01" + field(4, SMALL), "bytes beside its tensors"),
        (field(5, field(5, field(2, bytes(17 << 20)))), "send tensors in raw_input_contents"),
    ],
)
def test_a_message_of_many_objects_is_refused_before_it_is_decoded(body: bytes, error: str) -> None:
    with pytest.raises(InputError, match=error):
        decoded(body)


def test_long_tensors_are_taken_in_any_form() -> None:
    floats = field(5, field(5, field(6, bytes(12 << 20))) + field(1, b"x"))
    assert len(decoded(floats).message.inputs[0].contents.fp32_contents) == 3 << 20
    assert len(decoded(field(1, b"m") + field(7, bytes(20 << 20))).raw[0]) == 20 << 20
