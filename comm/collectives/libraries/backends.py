"""Library backends: their obstacles, and how ranks join, without loading the libraries."""

from __future__ import annotations

import importlib.util

from ...errors import UsageError
from ..backend import Collectives, JobSite, Membership, SendCapacity


class MpiBackend:
    """Stands for MPI in the registry; MpiRendezvous, which starts MPI, joins the ranks."""

    send_capacity = SendCapacity()

    def obstacle(self, site: JobSite) -> str:
        """See CollectiveBackend.obstacle."""
        if not site.under_mpi:
            return (
                "and mpirun did not start this process: start the ranks with mpirun, or choose "
                "shared_memory or gloo"
            )
        return _missing("mpi4py", "mpi")

    def join(self, membership: Membership) -> Collectives:
        """Raise UsageError: these ranks did not meet through MPI."""
        raise UsageError(f"{membership.rank}: collectives mpi need ranks that mpirun started.")


class TorchBackend:
    """One backend of torch.distributed: its name, the package that it needs, and its device."""

    send_capacity = SendCapacity()

    def __init__(self, name: str, package: str, extra: str, device: str = "") -> None:
        """`extra` installs the package with Rankmesh ("": none does). `device` "": any."""
        self._name = name
        self._package = package
        self._extra = extra
        self._device = device

    def obstacle(self, site: JobSite) -> str:
        """See CollectiveBackend.obstacle."""
        if self._device not in ("", site.device):
            return f"and the ranks are on {site.device}: choose gloo, or another device"
        return _missing(self._package, self._extra)

    def join(self, membership: Membership) -> Collectives:
        """See CollectiveBackend.join."""
        from .torch_distributed import TorchCollectives  # torch takes a second

        return TorchCollectives(self._name, membership)


def _missing(package: str, extra: str) -> str:
    """The obstacle that a package is not installed; the package is not imported."""
    if importlib.util.find_spec(package) is not None:
        return ""
    how = f"`pip install 'rankmesh[{extra}]'`" if extra else f"install {package}"
    return f"which needs {package}, and it is not installed: {how}"


MPI = MpiBackend()
GLOO = TorchBackend("gloo", "torch", "torch")
NCCL = TorchBackend("nccl", "torch", "torch", "gpu")
HCCL = TorchBackend("hccl", "torch_npu", "", "ascend")
