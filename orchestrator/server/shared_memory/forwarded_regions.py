"""Forwarded regions: those of a server process, which has none itself."""

from __future__ import annotations

from .client_regions import ClientRegions
from .shared_tensor import SharedTensor


class InRegion(Exception):
    """A request has a tensor in a region: the process that has the regions answers it."""


class ForwardedRegions(ClientRegions):
    """The regions of clients, which the process of the orchestrator has."""

    def tensor(self, region: object, offset: object, size: object) -> SharedTensor | None:
        """None where a tensor is in no region. Raises InRegion, UnsupportedCall."""
        if region is None and size is None and offset is None:
            return None
        self.require_offered()
        raise InRegion
