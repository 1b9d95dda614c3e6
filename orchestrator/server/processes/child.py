"""Program of a server process: answers clients until its parent drains it, or ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import uvloop

from ....comm.errors import UsageError
from ....comm.host.secrecy import close_to_others
from ....comm.processes.rank_main import set_parent_death_signal
from ....comm.transport.message_stream import ChannelClosed, MessageStream
from ..access.shared_rates import SharedRates
from ..frontend.frontend import Frontend, SharedCounts
from ..http.connection_counts import ConnectionCounts
from ..inference import InferenceService
from ..server_state import ServerState
from ..shared_memory.forwarded_regions import ForwardedRegions
from .connected_models import ConnectedModels
from .loop_stream import LoopStream
from .messages import (
    Activity,
    Begin,
    CallAnswer,
    Drain,
    FromProcess,
    Health,
    Listening,
    PageAnswer,
    Reload,
    ToProcess,
    decode_to_process,
    encode,
)
from .orchestrator_forwarder import OrchestratorForwarder
from .told_health import ToldHealth

_PERIOD = 0.5
"""Seconds between two words to the parent about the counts of this process."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The message and the descriptors that the parent of a server process sends first."""

    begin: Begin
    endpoint: socket.socket
    shared: SharedCounts
    sockets: Sequence[socket.socket]


class ServerChild:
    """One server process, in its asyncio loop."""

    def __init__(self, beginning: Beginning, stream: MessageStream[FromProcess, ToProcess]) -> None:
        """In the loop; `stream` leads to the parent. Raises UsageError."""
        settings = beginning.begin.settings
        self._beginning = beginning
        self._ending = asyncio.Event()
        self._state = ServerState()
        self._told: Health | None = None
        self._health: ToldHealth | None = None
        self._service: InferenceService | None = None
        self._stream: LoopStream[FromProcess, ToProcess] = LoopStream(
            stream, asyncio.get_running_loop(), self._take, self._ending.set
        )
        self._forwarder = OrchestratorForwarder(self._send)
        regions = ForwardedRegions(settings.shared_memory_prefixes)
        release = version("rankmesh")
        self._frontend = Frontend(
            settings, release, self._state, regions, self._forwarder, beginning.shared
        )

    async def run(self) -> None:
        """Answer clients until the parent says otherwise, or is gone."""
        connecting = asyncio.create_task(self._connect())
        if self._beginning.begin.started:
            await connecting
        try:
            ports = await self._frontend.listen(self._beginning.sockets)
        except UsageError as error:
            connecting.cancel()
            self._stream.send(Listening(None, str(error)))
            return
        self._stream.send(Listening(ports.grpc))
        self._tell()
        try:
            await self._ending.wait()
            await self._frontend.drain()
        finally:
            connecting.cancel()
            self._stream.send(self._activity())
            await self._frontend.close()
            self._state.close()

    async def _connect(self) -> None:
        """Answer requests to models once the orchestrator has started."""
        try:
            models = await ConnectedModels.connected(self._beginning.endpoint, self._ending.set)
        except ChannelClosed:
            self._ending.set()
            return
        self._health = ToldHealth()
        if self._told is not None:
            self._health.tell(self._told)
        self._service = InferenceService(models, asyncio.get_running_loop())
        self._state.serve(self._service, self._health)

    def _take(self, message: ToProcess) -> None:
        match message:
            case Health(_, _, _, draining):
                self._told = message
                self._state.draining = draining
                if self._health is not None:
                    self._health.tell(message)
            case PageAnswer() | CallAnswer():
                self._forwarder.take(message)
            case Reload():
                self._frontend.reload()
            case Drain():
                self._ending.set()

    def _send(self, message: FromProcess) -> None:
        """Forward a request, behind the counts of now: pages tell them."""
        self._stream.send(self._activity())
        self._stream.send(message)

    def _tell(self) -> None:
        self._stream.send(self._activity())
        asyncio.get_running_loop().call_later(_PERIOD, self._tell)

    def _activity(self) -> Activity:
        last = [] if self._service is None else self._service.last_inferences()
        return Activity(self._frontend.activity(), last)


def main(descriptor: int) -> None:
    """Take the beginning from the parent, whose end of the socket pair this is, and run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent tells what they mean
    close_to_others()
    parent = socket.socket(fileno=descriptor)
    stream: MessageStream[FromProcess, ToProcess] = MessageStream(parent, encode, decode_to_process)
    begin, files = stream.receive_with_fds()
    assert isinstance(begin, Begin)
    set_parent_death_signal(begin.parent)
    parent.setblocking(False)
    endpoint, rates, counts, *listening = files
    shared = SharedCounts(SharedRates(rates), ConnectionCounts(counts), begin.place)
    sockets = [socket.socket(fileno=one) for one in listening]
    for one in sockets:
        one.setblocking(False)
    found = Beginning(begin, socket.socket(fileno=endpoint), shared, sockets)
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_run(found, stream))


async def _run(beginning: Beginning, stream: MessageStream[FromProcess, ToProcess]) -> None:
    await ServerChild(beginning, stream).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
