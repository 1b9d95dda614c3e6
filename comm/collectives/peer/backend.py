"""Peer backend of the registry: says what it needs, and joins ranks, without loading torch."""

from __future__ import annotations

import importlib.util

from ..backend import Collectives, JobSite, Membership, SendCapacity


class PeerBackend:
    """See CollectiveBackend: ranks of one host whose GPUs reach each other's memory."""

    send_capacity = SendCapacity()

    def obstacle(self, site: JobSite) -> str:
        """See CollectiveBackend.obstacle."""
        if site.device != "gpu":
            return f"and the ranks are on {site.device}: choose shared_memory, or NVIDIA GPUs"
        if not site.on_one_host:
            return "and the ranks are on several hosts: choose nccl"
        for package in ("torch", "triton", "cuda.bindings"):
            if _missing(package):
                return (
                    f"which needs {package}, and it is not installed: `pip install 'rankmesh[gpu]'`"
                )
        return ""

    def join(self, membership: Membership) -> Collectives:
        """See CollectiveBackend.join."""
        from .collectives import PeerCollectives  # torch and triton take seconds

        return PeerCollectives(membership)


def _missing(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ImportError:  # of the package around it
        return True


PEER = PeerBackend()
