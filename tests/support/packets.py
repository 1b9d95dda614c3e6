"""Packets that no peer of ours would send, for every decoder of what other processes say."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from onnx import TensorProto

from rankmesh.comm.agents import messages as agents
from rankmesh.comm.agents import order_messages, weight_messages
from rankmesh.comm.collectives.hierarchical.host_parts import Members
from rankmesh.comm.collectives.registry import ON_ONE_HOST
from rankmesh.comm.collectives.shared_memory.stage_tensors import MappedOffers, StageOffer
from rankmesh.comm.decoding import decode_payloads
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.host.stamp import Stamp
from rankmesh.comm.job.placement import RankSpec
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.host_peers import HostPeer
from rankmesh.comm.job_memory.progress import ProgressSnapshot, Stage
from rankmesh.comm.processes.sliced_model import SliceAnswer
from rankmesh.comm.serving import orders, weights
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.comm.sharing import messages as sharing
from rankmesh.comm.sharing.device_memory import Ticket
from rankmesh.comm.sharing.memory_offer import OfferedMemory
from rankmesh.comm.sharing.messages import NONCE_BYTES, PROOF_BYTES
from rankmesh.comm.transfer import messages as transfer
from rankmesh.comm.transfer import model_files
from rankmesh.comm.transport import messages
from rankmesh.comm.transport.stream_invitation import StreamInvitation
from rankmesh.compiler.slicing.planning.host_costs import COSTS_DECODER, CostsFile
from rankmesh.launch.rank.default_inputs import FoundShapes
from rankmesh.launch.rank.job import OutputReport, RankReport, RunJob
from rankmesh.launch.rank.run_rank import Saved
from rankmesh.orchestrator.endpoint import messages as endpoint
from rankmesh.orchestrator.replica.rank_status import Status
from rankmesh.orchestrator.server.faults import GrpcCode, RequestFault
from rankmesh.orchestrator.server.frontend.settings import ServerSettings
from rankmesh.orchestrator.server.observation.activity import ServerActivity
from rankmesh.orchestrator.server.processes import messages as processes
from rankmesh.worker.cache import identity, manifest
from rankmesh.worker.image_layout.layout_offer import LayoutOffer
from rankmesh.worker.partition.equal_shards import Origins
from rankmesh.worker.partition.fingerprint import Fingerprint
from rankmesh.worker.partition.plan import Plan, StateVariable, decode_plan, encode_plan
from rankmesh.worker.runtime.program_spec import ProgramSpec
from rankmesh.worker.session.hardware import CoreSet
from rankmesh.worker.weights import weight_file

Decode = Callable[[bytes], object]
encode = msgspec.msgpack.encode
_WEIGHT = weights.WeightTensor("w", "float32", (2, 3), 64, 1)
_SPEC = TensorSpec("ids", "int64", (1, -1))
_SERVE_JOB = orders.ServeJob(
    "m.onnx", 1, "cpu", None, 1, True, True, 3, 4, 5, [6], 7, [0], function=None
)
_RUN_JOB = RunJob(ProgramSpec("m.onnx"), 1, None, None, None, None, None, None, 1)
_OUTPUT = OutputReport("o", True, "float32", (2,), 8, 2, ("1", "2"), True, 0.0, 0.0, "")


def _payloads(kind: type) -> Decode:
    return lambda data: decode_payloads([data], kind)


_PROGRAM: list[endpoint.ProgramMessage] = [
    endpoint.Greeting("0.1.0"),
    endpoint.RoomWish(1, 4096),
    endpoint.RoomReturn([0, 4096]),
    endpoint.SentRequest(2, "bert", 1, True, 4096, ((2, 4), ()), 1.5, -1, False),
    endpoint.Cancel(2),
    endpoint.Forget([2]),
    endpoint.StatusWish(3),
    endpoint.MetricsWish(4),
]
_CARD = endpoint.VersionCard(1, "bert.onnx", (_SPEC,), (_SPEC,), {"y": ("cat",)}, 60.0)
_ENDPOINT: list[endpoint.EndpointMessage] = [
    endpoint.Welcome((endpoint.ModelCard("bert", 1, (_CARD,)),)),
    endpoint.Models(()),
    endpoint.Room(1, 4096, 4096),
    endpoint.Answered(2, [[endpoint.OutputPlace("y", "float32", (2,), 8192)]]),
    endpoint.Declined(3, "QueueFull", "text", 5),
    endpoint.StatusReply(4, Status("ready", 1, 0, ())),
    endpoint.MetricsReply(5, {}),
]

_FROM_PROCESS: list[processes.FromProcess] = [
    processes.Listening(8001, "text"),
    processes.Activity(ServerActivity(1, {200: 2}, 0, {"OK": 1}), [("bert", "1", 7)]),
    processes.Page(1, "GET", ["metrics"], [(b"host", b"a")], b""),
    processes.ForwardedCall(2, "ModelConfig", b""),
    processes.Abandon(2),
]
_FILE = transfer.OfferedFile("bert/data_0", 7, "0" * 64)
_LOCAL_FILE = model_files.LocalFile(Stamp("/m", (), 1, 2, 3, 4, 5), _FILE)
_TO_HOST: list[transfer.ToHost] = [
    transfer.Offer("bert", "bert_rank{rank}.mindir", (_FILE,)),
    transfer.Chunk("0" * 64, 0, b"weights"),
    transfer.Withheld("0" * 64, "text"),
]
_FROM_HOST: list[transfer.FromHost] = [
    transfer.Want("0" * 64, 0, 7),
    transfer.Held(7),
    transfer.Lacking("ModelError", "text"),
]
_FAULT = RequestFault(404, GrpcCode.NOT_FOUND, "text")
_TO_PROCESS: list[processes.ToProcess] = [
    processes.Begin(ServerSettings(), 0, 7, True),
    processes.Health([("bert", 1)], ["bert"], True, False),
    processes.Reload(),
    processes.Drain(),
    processes.PageAnswer(1, 200, [(b"content-type", b"text/plain")], b"page"),
    processes.CallAnswer(2, b"", _FAULT),
]
_TO_AGENT: list[agents.ToAgent] = [
    agents.PrepareIncarnation(1, [RankSpec(Rank(0, 1, 0, 1, "host", 0), (0,), 1)], 3),
    agents.StartRank(1, 0, b"job", 60.0),
    agents.EndIncarnation(1, True),
    weight_messages.AskRank(1, 0, 2, b"question", [1], True),
    weight_messages.PutWeight(1, 4096),
    weight_messages.DropWeights([1]),
    agents.WriteStacks(1, 0),
    agents.ExchangeAnswer(1, [b"payload", b""]),
    order_messages.RunOrder(1, 0, ((2, 4), ()), (4096,), ((0,),)),
    order_messages.OtherOrder(1, 1, orders.Switch(1)),
    order_messages.GrantRoom(1, 0, 0, orders.OutputBuffer(64, 4096)),
    order_messages.ReleaseOrder(1, 0),
    agents.OfferModel(1, transfer.Offer("bert", "bert_rank{rank}.mindir", (_FILE,)), "/m"),
    agents.ModelAnswer(1, transfer.Withheld("0" * 64, "text")),
]
FROM_AGENT: list[agents.FromAgent] = [
    agents.RankStarted(1, 0, 7, "device 0"),
    agents.RankExchange(1, 0, b"payload"),
    agents.RankReported(1, 0, b"report"),
    weight_messages.WeightLacking(1),
    weight_messages.RankAnswered(1, 0, 2, b"reply"),
    agents.RankError(1, 0, "ModelError", "text"),
    order_messages.RankFault(1, 0, "text"),
    agents.RankEnded(1, 0, "exited with status 1"),
    agents.RankLine(1, 0, 1, "line"),
    agents.IncarnationProgress(
        1, -1, 5, [agents.RankProgress(0, ProgressSnapshot(Stage.READY, None, 0, None), False)]
    ),
    order_messages.OrderAnswer(1, 0, 0, orders.Answer([]), [order_messages.GivenTensor(0, (2,))]),
    order_messages.OrderDone(1, 0, [64]),
    agents.IncarnationEnded(1, [0]),
    agents.ModelWish(1, transfer.Held(7)),
]
DECODERS: dict[str, tuple[Decode, list[bytes]]] = {
    "endpoint's": (endpoint.decode_endpoint, list(map(endpoint.encode, _ENDPOINT))),
    "server process's": (
        processes.decode_from_process,
        list(map(processes.encode, _FROM_PROCESS)),
    ),
    "server's": (processes.decode_to_process, list(map(processes.encode, _TO_PROCESS))),
    "transfer's": (transfer.decode_to_host, list(map(transfer.encode, _TO_HOST))),
    "receiver's": (transfer.decode_from_host, list(map(transfer.encode, _FROM_HOST))),
    "model files": (
        model_files.LISTED_FILES_DECODER,
        [msgspec.json.encode(model_files.ListedFiles("m", (_LOCAL_FILE,), "E", "text"))],
    ),
    "orchestrator's": (agents.decode_to_agent, list(map(agents.encode_to_agent, _TO_AGENT))),
    "orchestrator's to a rank": (
        order_messages.decode_to_rank,
        [
            agents.encode_to_agent(one)
            for one in _TO_AGENT
            if isinstance(one, order_messages.ToRank)
        ],
    ),
    "rank's": (
        order_messages.decode_from_rank,
        [
            agents.encode_from_agent(one)
            for one in FROM_AGENT
            if isinstance(one, order_messages.FromRank)
        ],
    ),
    "agent's": (agents.decode_from_agent, list(map(agents.encode_from_agent, FROM_AGENT))),
    "program's": (endpoint.decode_program, list(map(endpoint.encode, _PROGRAM))),
    "message": (
        messages.decode,
        [
            messages.encode(message)
            for message in (
                messages.Start(Rank(1, 2, 0, 1, "host", 0), b"job", 60.0),
                messages.Join(1, 2, "job", "host, process 5"),
                messages.Joined("rank 0"),
                messages.Left(1),
                messages.Beat(),
                messages.AgentJoin("a", "host", 5, "0.1.0", 2, [0, 1]),
                messages.AgentWelcome(StreamInvitation(1024, b"token", b"key", b"key", True)),
                messages.AgentDismissed(),
                messages.Exchange(b"payload"),
                messages.Exchanged([b"a", b"b"]),
                messages.Finished(b"report"),
                messages.Ready(b"report"),
                messages.ControlRequest(1, b"question"),
                messages.ControlReply(1, b"reply"),
                messages.Failed("RankFailed", "text", 1),
            )
        ],
    ),
    "request": (
        sharing.decode_request,
        [
            sharing.encode(message)
            for message in (
                sharing.Hello(bytes(NONCE_BYTES)),
                sharing.Attach(bytes(PROOF_BYTES), "model", "cpu 0"),
                sharing.More(1),
                sharing.Identify(),
                sharing.Update("n", layout={"a": 0}),
            )
        ],
    ),
    "reply": (
        sharing.decode_reply,
        [
            sharing.encode(message)
            for message in (
                sharing.Proven(bytes(NONCE_BYTES), 1, 2, bytes(PROOF_BYTES)),
                sharing.Granted(1, 2),
                sharing.Identified(0),
                sharing.Done("done"),
                sharing.Refused("no"),
            )
        ],
    ),
    "order": (
        lambda data: orders.decode_order(orders.with_checksum(data)),
        [
            encode(order)
            for order in (
                orders.Run(
                    (orders.TensorRef(0, (1, 2)),),
                    (orders.OutputPart(0, (0,), orders.OutputBuffer(64, 8)),),
                ),
                orders.Switch(1),
                orders.Stop(),
            )
        ],
    ),
    "answer": (
        orders.decode_answer,
        [
            orders.encode_answer(answer)
            for answer in (
                orders.Answer([orders.TensorRef(0, (2,))]),
                orders.Answer([], 8, "InputError", "text", "trace", False, 3),
            )
        ],
    ),
    "serving": (
        orders.decode_report,
        [encode(orders.ModelReport("m.onnx", (_SPEC,), (_SPEC,), (0,)))],
    ),
    "question": (
        weights.decode_weight_request,
        [
            weights.encode_weight_request(question)
            for question in (
                weights.ResolveWeights([_WEIGHT], "path", False),
                weights.WriteWeights([_WEIGHT], True),
                weights.StageWeights(1, 1, [_WEIGHT]),
                weights.DiscardWeights(),
            )
        ],
    ),
    "weights reply": (
        weights.decode_weight_reply,
        [weights.encode_weight_reply(weights.WeightReply({"w": _WEIGHT}, ["x"], "why"))],
    ),
    "HostPeer": (_payloads(HostPeer), [encode(HostPeer("boot", 5, 6))]),
    "CoreSet": (_payloads(CoreSet), [encode(CoreSet("host", (0, 1)))]),
    "Fingerprint": (_payloads(Fingerprint), [encode(Fingerprint(0, "m", ("x",), ()))]),
    "Members": (_payloads(Members), [encode([0, 2])]),
    "Origins": (_payloads(Origins), [encode(Origins(()))]),
    "FoundShapes": (_payloads(FoundShapes), [encode(FoundShapes({"x": (1, 2)}, ("note",)))]),
    "LayoutOffer": (_payloads(LayoutOffer), [encode(LayoutOffer())]),
    "StageOffer": (_payloads(StageOffer), [encode(StageOffer(5, OfferedMemory(5, 6, "gpu")))]),
    "MappedOffers": (_payloads(MappedOffers), [encode(MappedOffers((0, 1)))]),
    "SliceAnswer": (_payloads(SliceAnswer), [encode(SliceAnswer())]),
    "ServeJob": (_payloads(orders.ServeJob), [encode(_SERVE_JOB)]),
    "RunJob": (_payloads(RunJob), [encode(_RUN_JOB)]),
    "costs": (COSTS_DECODER, [msgspec.json.encode(CostsFile("p", {}))]),
    "ticket": (_payloads(Ticket), [encode(Ticket("npu", 8, b"parts"))]),
    "Saved": (_payloads(Saved), [encode(Saved(True, "digest"))]),
    "RankReport": (
        _payloads(RankReport),
        [encode(RankReport(0, "m", (_OUTPUT,), (1.0,), (0.5,), ON_ONE_HOST, ""))],
    ),
    "identity": (
        identity.IDENTITY_DECODER,
        [encode(identity.ModelIdentity({"": Stamp("/m", (), 1, 2, 3, 4, 5)}, "digest"))],
    ),
    "manifest": (
        manifest.MANIFEST_DECODER,
        [msgspec.json.encode(manifest.Manifest("m", {"f": manifest.FileContent(1, 2)}))],
    ),
    "contents": (
        weight_file.HEADER_DECODER,
        [encode(weight_file.WeightFileHeader({"w": weight_file.StoredTensor(1, (2,), (0,))}))],
    ),
    "plan": (
        decode_plan,
        [
            encode_plan(
                Plan(
                    "m",
                    "",
                    (),
                    (),
                    (),
                    {},
                    {},
                    (
                        StateVariable(
                            "v", "r", TensorProto(dims=[1], data_type=1, raw_data=b"abcd")
                        ),
                    ),
                )
            )
        ],
    ),
}
"""Every decoder by name, and real messages for it."""

NESTED = b"\x91" * 8000 + b"\xc0"
"""A value as deep as a packet of a broker may be."""

_HUGE: list[bytes] = [
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + bytes(7),
    b"\xcb\x7f\xf8" + bytes(6),
    b"\xcb\x7f\xf0" + bytes(6),
    b"\xc0",
    b"\xc3",
    b"\xc1",
    b"\xd6\xff" + b"\xff" * 4,
    b"\xc7\x0c\xff" + b"\xff" * 12,
    b"\xc9\xff\xff\xff\xff\x05",
    b"\xd8\x01" + bytes(16),
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xa3\xff\xfe\xfd",
    b"\xa2\xed\xa0",
    b"\xa1\x00",
    b"\xc4\x00",
    b"\xa0",
    b"\x90",
    b"\x80",
    b'"\\ud800"',
    b"1e999",
    b"NaN",
    b"9" * 400,
    b'{"' * 3,
    b"[" * 3,
]


def survives(decode: Decode, data: bytes) -> None:
    """Decode; anything but a result or a refusal is raised."""
    try:
        decode(data)
    except (msgspec.DecodeError, RankFailed) as error:
        assert len(str(error)) < 400 and str(error).isprintable()


def nested(random: Random) -> bytes:
    """A value in a value in a value, as MessagePack or JSON."""
    opening, closing = random.choice(
        [
            (b"\x91", b""),
            (b"\x81\xa1a", b""),
            (b"\xdd\0\0\0\x01", b""),
            (b"\x81\x91", b""),
            (b"[", b"]"),
            (b'{"a":', b"}"),
        ]
    )
    depth = random.choice([10, 500, 990, 1100, 8000])
    return opening * depth + random.choice([b"\xc0", b"1", b""]) + closing * depth


def unknown_field(message: bytes, value: bytes) -> bytes:
    """The message, a MessagePack map of fewer than 15 fields, with one more, which nobody knows."""
    assert 0x80 <= message[0] < 0x8F
    return bytes([message[0] + 1]) + message[1:] + b"\xa3new" + value


def packet(random: Random, messages: list[bytes]) -> bytes:
    """A packet that is nearly one of the real `messages`, or nothing like them."""
    whole = random.choice(messages)
    kind = random.randrange(8)
    if kind == 0:
        return random.randbytes(random.randrange(64))
    value = nested(random) if random.randrange(20) == 0 else random.choice(_HUGE)
    if kind == 1 and 0x80 <= whole[0] < 0x8F:
        return unknown_field(whole, value)
    if kind == 2:
        return _with_node(random, whole, value)
    changed = bytearray(whole)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(changed) + 1)
        _CHANGES[random.randrange(len(_CHANGES))](changed, at, value, random)
    return bytes(changed)


def _flip(data: bytearray, at: int, value: bytes, random: Random) -> None:
    data[at : at + 1] = random.randbytes(1)


def _cut(data: bytearray, at: int, value: bytes, random: Random) -> None:
    del data[at : at + random.choice([1, 3, 1000])]


def _insert(data: bytearray, at: int, value: bytes, random: Random) -> None:
    data[at:at] = value


def _put(data: bytearray, at: int, value: bytes, random: Random) -> None:
    data[at : at + len(value)] = value


def _lengthen(data: bytearray, at: int, value: bytes, random: Random) -> None:
    data[at : at + 1] = random.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + struct.pack(
        ">I", random.getrandbits(32)
    )


_CHANGES = [_flip, _cut, _insert, _put, _lengthen]
_MARK = "@@the value@@"


def _with_node(random: Random, message: bytes, value: bytes) -> bytes:
    """The message with one part of it, at any depth, replaced by an encoded value."""
    coding: Any = msgspec.json if message[:1] == b"{" else msgspec.msgpack
    found = coding.decode(message)
    holder = {"": found}
    places: list[tuple[Any, Any]] = [(holder, "")]
    for box, key in places:
        inner = box[key]
        if isinstance(inner, dict):
            places += [(inner, name) for name in inner]
        elif isinstance(inner, list):
            places += [(inner, index) for index in range(len(inner))]
    box, key = random.choice(places)
    box[key] = _MARK
    return bytes(coding.encode(holder[""])).replace(coding.encode(_MARK), value)
