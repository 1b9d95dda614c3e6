"""Roles: the permission that each path of HTTP, and each call of gRPC, needs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class AccessRole(Enum):
    """Permissions of a token. All that is not listed below needs MANAGE."""

    INFER = "infer"
    MANAGE = "manage"
    METRICS = "metrics"


_READING = ("GET", "HEAD")
_OPEN_CALLS = {"Check", "ServerLive", "ServerReady"}
_INFER_CALLS = {
    "List",
    "ModelConfig",
    "ModelInfer",
    "ModelMetadata",
    "ModelReady",
    "ModelStatistics",
    "ModelStreamInfer",
    "RepositoryIndex",
    "ServerMetadata",
    "ServerReflectionInfo",
    "Watch",
}
_SHARED_MEMORY = ("CudaSharedMemory", "SystemSharedMemory")


def role_of_path(method: str, path: Sequence[str]) -> AccessRole | None:
    """The role that a request of HTTP needs; None for probes and the page, which need none."""
    match path:
        case ["v2", "health", "live" | "ready"]:
            return None
        case [] | [""]:  # the page, which is without data
            return None
        case ["metrics"] | ["overview"]:
            return AccessRole.METRICS
    if method in _READING:
        return AccessRole.INFER
    match path:
        case ["v2", "models", _, "infer"] | ["v2", "models", _, "versions", _, "infer"]:
            return AccessRole.INFER
        case ["v2", "repository", "index"]:
            return AccessRole.INFER
        case ["v2", "systemsharedmemory" | "cudasharedmemory", *_]:
            return AccessRole.INFER
    return AccessRole.MANAGE


def role_of_call(name: str) -> AccessRole | None:
    """The role that a call of gRPC needs; None for probes, which need no token."""
    if name in _OPEN_CALLS:
        return None
    if name in _INFER_CALLS or name.startswith(_SHARED_MEMORY):
        return AccessRole.INFER
    return AccessRole.MANAGE
