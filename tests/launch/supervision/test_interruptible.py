"""Signals in a block: what ends it is the signal, whatever a library makes of it."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from rankmesh.launch.supervision.signals import Interrupted, interruptible

pytestmark = pytest.mark.pure


def test_an_error_that_a_signal_became_is_the_signal() -> None:
    with pytest.raises(Interrupted) as caught, interruptible("nothing was written"):
        with suppress(Interrupted):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("initialization failed")
    assert (caught.value.exit_code, caught.value.outcome) == (130, "nothing was written")


def test_an_error_without_a_signal_stays_what_it_is() -> None:
    before = signal.getsignal(signal.SIGTERM)  # an orchestrator's, after others' tests
    with pytest.raises(ImportError), interruptible("nothing was written"):
        raise ImportError("initialization failed")
    assert signal.getsignal(signal.SIGTERM) == before
