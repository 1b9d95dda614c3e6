"""The thread that copies beside the loop: on which core."""

from __future__ import annotations

import os

import pytest

from rankmesh.orchestrator.server.shared_memory.copy_helper import CopyHelper

pytestmark = pytest.mark.pure
CORES = os.sched_getaffinity(0)


@pytest.mark.skipif(len(CORES) < 2, reason="there is one core")
def test_it_copies_on_another_core_than_its_caller() -> None:
    helper = CopyHelper()
    found: list[set[int]] = []
    try:
        for core in sorted(CORES)[:2]:
            os.sched_setaffinity(0, {core})
            helper.submit(lambda: found.append(os.sched_getaffinity(0))).result()
            assert core not in found[-1] and found[-1]
    finally:
        os.sched_setaffinity(0, CORES)
