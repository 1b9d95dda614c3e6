"""An update of the weights that a process asked for: it runs in a thread of its own, so that others are served."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from ..errors import RankmeshError
from .messages import Done, Refused, Update
from .peer import Peer, PeerGone

_LOG = logging.getLogger("rankmesh")
Updating = Callable[[int, Update], str]
"""Takes a descriptor and what is asked for; says what it did, or raises RankmeshError."""


def start_update(update: Updating, peer: Peer, request: Update, fd: int, ended: Callable[[], None]) -> None:
    """Run `update`, answer the peer, close `fd`, and call `ended`."""
    threading.Thread(target=_run, args=(update, peer, request, fd, ended), name="rankmesh-update", daemon=True).start()


def _run(update: Updating, peer: Peer, request: Update, fd: int, ended: Callable[[], None]) -> None:
    try:
        peer.send(_answer(update, fd, request))
    except PeerGone:
        pass  # who asked did not wait; the update stands
    finally:
        os.close(fd)
        ended()


def _answer(update: Updating, fd: int, request: Update) -> Done | Refused:
    try:
        return Done(update(fd, request)[:1000])
    except RankmeshError as error:
        return Refused(str(error)[:1000])
    except Exception as error:  # no memory left, a fault of a library: who asked is told, the owner goes on
        _LOG.exception("weights: the update from %s failed", request.name)
        return Refused(f"the update failed, and changed nothing: {type(error).__name__}: {error}"[:1000])
