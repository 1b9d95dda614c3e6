"""Shared-memory backend: joins the ranks of one host over the arena of their job."""

from __future__ import annotations

from ..backend import Collectives, JobSite, Membership, SendCapacity
from .layout import CHUNK_BYTES, CHUNKS


class SharedMemoryBackend:
    """Joins ranks over the arena of their job."""

    send_capacity = SendCapacity(CHUNKS, CHUNK_BYTES)

    def obstacle(self, site: JobSite) -> str:
        """See CollectiveBackend.obstacle."""
        if site.on_one_host:
            return ""
        return f"and the ranks are on several hosts: choose {'mpi' if site.under_mpi else 'gloo'}"

    def join(self, membership: Membership) -> Collectives:
        """See CollectiveBackend.join; waits for no other rank."""
        from .collectives import SharedMemoryCollectives  # numpy, which launchers do without

        m = membership
        return SharedMemoryCollectives(m.rank, m.arena, m.groups, m.pairs, m.timeout)


SHARED_MEMORY = SharedMemoryBackend()
