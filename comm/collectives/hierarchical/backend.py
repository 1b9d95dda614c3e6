"""Hierarchical backend: its obstacle, and how ranks join, without loading torch."""

from __future__ import annotations

from ..backend import Collectives, JobSite, Membership, SendCapacity
from ..libraries.backends import GLOO


class HierarchicalBackend:
    """Joins ranks of several hosts: over the arena of each host, and by gloo between hosts."""

    send_capacity = SendCapacity()

    def obstacle(self, site: JobSite) -> str:
        """See CollectiveBackend.obstacle."""
        return GLOO.obstacle(site)

    def join(self, membership: Membership) -> Collectives:
        """See CollectiveBackend.join."""
        from .collectives import HierarchicalCollectives  # torch takes a second

        return HierarchicalCollectives(membership)


HIERARCHICAL = HierarchicalBackend()
