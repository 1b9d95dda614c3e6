"""Agents with valid keys that lie: what they tell has the right form, and any content."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from packets import FROM_AGENT
from simulation.agent import SimulatedAgent
from simulation.cluster import ClusterSettings
from simulation.deployment import Deployment, deployed
from simulation.load import Load, Outcomes

from rankmesh.comm.agents.messages import FromAgent, decode_from_agent, encode_from_agent
from rankmesh.comm.agents.weight_messages import WeightLacking

_INTEGERS = [0, 1, -1, 2, 7, 255, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63)]
_OF_INCARNATIONS = [one for one in FROM_AGENT if not isinstance(one, WeightLacking)]
_TEXTS = ["", "y", "RankFailed", "SystemExit", "\x1b[2J", "x" * 100_000]
_FLOATS = [0.0, -1.0, float("nan"), float("inf"), 1e308]


class Liar:
    """Has an agent of a simulated deployment lie from time to time; `lies` counts."""

    def __init__(self, deployment: Deployment, seed: int, often: float) -> None:
        """Each message is changed, left out, told twice, or followed by another one `often`."""
        self.lies = 0
        self._random = Random(seed)
        self._often = often
        self._cluster = deployment.cluster
        self._honest = SimulatedAgent.tell

    def corrupt(self, host: str) -> None:
        """Have the agents of a host lie from now on, also those that join later."""

        def tell(agent: SimulatedAgent, message: FromAgent, tensors: Sequence[bytes] = ()) -> None:
            if agent.joined.host != host or self._random.random() >= self._often:
                self._honest(agent, message, tensors)
                return
            self.lies += 1
            for one in self._told(message):
                self._honest(agent, one, tensors if one is message else self._bytes(tensors))

        SimulatedAgent.tell = tell  # type: ignore[method-assign]

    def end(self) -> None:
        """Let all agents be honest."""
        SimulatedAgent.tell = self._honest  # type: ignore[method-assign]

    def _told(self, message: FromAgent) -> list[FromAgent]:
        other = self._random.choice(_OF_INCARNATIONS)
        other = msgspec.structs.replace(other, incarnation=message.incarnation)
        return self._random.choice(
            [
                [],
                [message, message],
                [self._changed(message)],
                [message, self._changed(message)],
                [message, other],
                [message, self._changed(other)],
                [self._changed(other), message],
            ]
        )

    def _bytes(self, tensors: Sequence[bytes]) -> Sequence[bytes]:
        return self._random.choice([tensors, (), [bytes(64)], [*tensors, bytes(4)]])

    def _changed(self, message: FromAgent) -> FromAgent:
        """The message with one value replaced; itself, where the decoder refuses all tries."""
        for _ in range(4):
            plain = msgspec.msgpack.decode(encode_from_agent(message))
            places = list(_places(plain))[2:]  # not the kind of the message, nor its incarnation
            box, key = self._random.choice(places)
            box[key] = self._another(box[key])
            try:
                return decode_from_agent(msgspec.msgpack.encode(plain))
            except (msgspec.DecodeError, OverflowError):
                continue
        return message

    def _another(self, value: Any) -> Any:
        match value:
            case bool():
                return not value
            case int():
                return self._random.choice(_INTEGERS)
            case float():
                return self._random.choice(_FLOATS)
            case str():
                return self._random.choice(_TEXTS)
            case bytes():
                return self._random.choice([b"", b"\xc1", value[:-1], bytes(1000)])
            case list():
                return self._random.choice([[], value * 2, value * 2000, value[1:]])
        return value


def _places(value: Any) -> Any:
    """Each container in a plain value, with each of its keys."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def lied_to(seed: int, requests: int, often: float = 0.2) -> tuple[Outcomes, int]:
    """What became of requests while the agent of one host of three lies; and how often it did."""
    settings = ClusterSettings(3, 4, service=0.02, start=0.02, repair=0.02, notice=0.02)
    with deployed(6, 2, settings, seed) as deployment:
        liar = Liar(deployment, seed, often)
        liar.corrupt(deployment.cluster.agents[0].joined.host)
        try:
            outcomes = Load(deployment, rate=40.0).run(requests, within=3600.0)
        finally:
            liar.end()
    return outcomes, liar.lies
