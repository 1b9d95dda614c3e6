"""Offered model: the files of an offer where this host sees them, else a copy that is sent."""

from __future__ import annotations

from typing import NamedTuple

from ...comm.errors import UsageError
from ...comm.transfer.messages import Offer
from .file_digests import FileDigests
from .received_model import Receive, ReceivedModel, Send, check_names
from .settings import served_cache


class SharedModel(NamedTuple):
    """Files that this host sees at the same path, with the same bytes."""

    pattern: str
    fetched: int = 0

    def close(self) -> None:
        """Nothing is held."""


def open_offered(
    offer: Offer, folder: str, send: Send, receive: Receive
) -> SharedModel | ReceivedModel:
    """The files of an offer: those in `folder` of this host, else those that are sent.

    Files in the folder are only compared with the digests of the offer. Raises as ReceivedModel.
    """
    check_names(offer)
    location = served_cache("")
    store = location.open() if location else None
    if FileDigests(store).match(offer, folder):
        return SharedModel(f"{folder}/{offer.pattern}")
    if store is None:
        raise UsageError(
            f"{offer.label}: {folder} does not have its files on this host, and without a model "
            "cache none can be sent here. Set RANKMESH_CACHE to a folder, or share the files by a "
            "path that all hosts see."
        )
    return ReceivedModel(offer, store, send, receive)
