"""Words for the end of a process."""

from __future__ import annotations

import signal

import pytest

from rankmesh.comm.host.process_end import EndOfProcess

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with status 0"),
        (7, "exited with status 7"),
        (-signal.SIGTERM, "was killed by SIGTERM"),
        (-signal.SIGKILL, "was killed by SIGKILL"),  # by no limit of memory
        (-signal.SIGBUS, "was killed by SIGBUS (a model file cut short while it was open?)"),
        (-(signal.SIGRTMIN + 1), f"was killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_the_end_of_a_process(status: int, words: str) -> None:
    assert EndOfProcess().told(status) == words
