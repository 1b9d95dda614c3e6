"""NCCL's failures, with their likely cause."""

from __future__ import annotations

import pytest

from rankmesh.comm.collectives.libraries.nccl_causes import with_cause

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "NCCL error in: ProcessGroupNCCL.cpp:3356, invalid usage (run with NCCL_DEBUG=WARN for "
            "details), NCCL version 2.27.5\nDuplicate GPU detected : rank 1 and rank 0 both on "
            "CUDA device 100000",
            "two ranks are on one GPU",
        ),
        ("unhandled system error, NCCL version 2.27.5", "NCCL_SOCKET_IFNAME chooses"),
        ("Cuda failure 2 'out of memory'", "no memory left for NCCL's buffers"),
        (
            "CUDA driver version is insufficient for CUDA runtime version",
            "NVIDIA's driver is older",
        ),
    ],
)
def test_the_likely_cause_stands_behind_the_text(text: str, cause: str) -> None:
    said = with_cause(text)
    assert said.startswith(f"{text} (likely: ") and cause in said


def test_an_unknown_failure_stays_as_it_is() -> None:
    assert with_cause("Socket timed out") == "Socket timed out"
