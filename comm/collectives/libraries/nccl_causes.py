"""Causes of NCCL's failures: puts the likely one behind the library's text."""

from __future__ import annotations

_CAUSES = (
    (
        "Duplicate GPU detected",
        "two ranks are on one GPU, which NCCL refuses: give each rank its own, or choose the "
        "collectives peer, gloo or shared_memory",
    ),
    (
        "peer access is not supported",
        "the GPUs cannot reach each other's memory: set NCCL_P2P_DISABLE=1",
    ),
    (
        "out of memory",
        "a GPU has no memory left for NCCL's buffers: end other processes there, or set "
        "NCCL_BUFFSIZE lower",
    ),
    (
        "No space left on device",
        "shared memory (/dev/shm) is full or too small: give the container more (--shm-size)",
    ),
    (
        "unhandled system error",
        "the network or /dev/shm failed: NCCL_DEBUG=INFO tells which, NCCL_SOCKET_IFNAME chooses "
        "the interface",
    ),
    (
        "driver version is insufficient",
        "NVIDIA's driver is older than the CUDA that torch was built with: update it, or install "
        "another torch",
    ),
    (
        "unhandled cuda error",
        "a kernel on this GPU failed before: CUDA_LAUNCH_BLOCKING=1 names it, NCCL_DEBUG=INFO the "
        "call",
    ),
    ("Connection closed by remote peer", "another rank has ended: its own error is the reason"),
)
"""Words of NCCL, and what mostly stands behind them; the most telling first."""


def with_cause(text: str) -> str:
    """The text of a failure, and its likely cause where there is a known one."""
    cause = next((cause for words, cause in _CAUSES if words.lower() in text.lower()), "")
    return f"{text} (likely: {cause})" if cause else text
