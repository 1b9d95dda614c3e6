"""Agent actor: runs an agent in a process that Ray has started in a bundle."""

from __future__ import annotations

import threading

from ...comm.errors import RankmeshError
from ...comm.transport.key_file import Keys
from ..hosted.agent import run_agent


class AgentActor:
    """One agent, in a thread of the actor's process; the ranks are children of that process."""

    def __init__(
        self, address: tuple[str, int], keys: tuple[str, str], name: str, ranks: int, silence: float
    ) -> None:
        """Join the orchestrator at `address`. After `silence` seconds without a sign of it, the
        ranks end.
        """
        self._failure = ""
        self._decided = threading.Event()
        arguments = (address, Keys(*keys), name, ranks, silence)
        threading.Thread(target=self._run, args=arguments, name="rankmesh-agent").start()

    def joined(self) -> str:
        """Wait until the agent has joined, and return an empty text, or the reason why not."""
        self._decided.wait()
        return self._failure

    def _run(
        self, address: tuple[str, int], keys: Keys, name: str, ranks: int, silence: float
    ) -> None:
        try:
            run_agent(
                address,
                keys,
                name,
                ranks,
                host_timeout=silence,
                joined=self._decided.set,
                pinned=False,  # Ray counts cores, and does not say which
            )
        except RankmeshError as error:
            self._failure = str(error)
        finally:
            self._decided.set()
