"""Trace context of W3C: the trace that a client's request is a part of, by its header.

https://www.w3.org/TR/trace-context/ defines the header `traceparent`.
"""

from __future__ import annotations

import re

TRACEPARENT = "traceparent"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE, _NO_PARENT, _NO_VERSION = "0" * 32, "0" * 16, "ff"


def trace_id_of(traceparent: str) -> str:
    """The id of a trace, 32 hexadecimal digits; empty where the header is malformed."""
    found = _FORM.fullmatch(traceparent.strip())
    if found is None:
        return ""
    version, trace, parent, more = found.groups()
    if version == _NO_VERSION or trace == _NO_TRACE or parent == _NO_PARENT:
        return ""
    return "" if version == "00" and more else trace
