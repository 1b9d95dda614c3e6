"""Weights of this process as others get them: the handle, the list of processes, the broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...comm.sharing.broker import Broker
from ...comm.sharing.updating import Updating
from ...comm.sharing.whitelist import Whitelist

_LOG = logging.getLogger("rankmesh")


class Sharing:
    """Serves `files` to listed processes that build the same model on the same device."""

    def __init__(self, model: str, device: str, files: Sequence[int], update: Updating, rank: int) -> None:
        self._broker = Broker(Whitelist(), model, device, files, update, rank)
        self._broker.start()
        self.handle = self._broker.handle
        self.publish = self._broker.publish
        self.holding_older = self._broker.holding_older
        self.clients = self._broker.clients
        self.revoke = self._broker.whitelist.revoke
        self.close = self._broker.close
        self.ended = False

    def allow(self, pid: int) -> bool:
        """List the process that has this number now; False where there is none. 0 is nobody."""
        if not pid:
            return False
        found = self._broker.whitelist.allow(pid)
        if not found:
            _LOG.warning("weights: there is no process %d here: it is not on the list of those that may use them", pid)
        return found

    def end(self) -> None:
        """Give nobody anything any more; who has the weights keeps them, and is waited for by updates as before."""
        if not self.ended:
            self.ended = True
            self._broker.retire()
