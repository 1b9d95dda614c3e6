"""Reference: the answer that is expected, with which all answers are compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from ..rank.compare import Distance
from .targets.reply import Reply
from .targets.target import Target


class Reference:
    """The expected outputs; tolerances are those of `rankmesh run --expect`."""

    def __init__(self, target: Target, expected: Mapping[str, Array]) -> None:
        self._target = target
        self._expected = expected
        self._accepted: Reply | None = None

    def fault(self, reply: Reply) -> str:
        """The fault of an answer; empty where it is right.

        A reply with the same bytes as one that was right is not looked at again. Raises
        RequestFailed where it cannot be read.
        """
        if not isinstance(reply, Mapping) and reply == self._accepted:
            return ""
        outputs = self._target.outputs(reply)
        for name, expected in self._expected.items():
            if name not in outputs:
                return f"the output '{name}' is missing"
            error = _difference(outputs[name], expected)
            if error:
                return f"the output '{name}' {error}"
        self._accepted = reply
        return ""


def _difference(got: Array, expected: Array) -> str:
    """The difference of an output; empty where it is within tolerance. Strings have to be equal."""
    if not (got.dtype.hasobject and expected.dtype.hasobject):
        return Distance(got, expected).error
    return "" if np.array_equal(got, expected) else "has other strings"


def require_right(reference: Reference, reply: Reply, path: str) -> None:
    """Raise InputError where the first answer is not what a file says."""
    fault = reference.fault(reply)
    if fault:
        raise InputError(f"--expect {path}: the first answer differs: {fault}.")
