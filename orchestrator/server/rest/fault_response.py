"""Fault responses: an error of the service as the response that tells it."""

from __future__ import annotations

import logging

from ....comm.errors import RankmeshError
from ..faults import fault_of
from ..http.exchange import ErrorMessage, Header, HttpResponse, json_response

_LOG = logging.getLogger("rankmesh.server")


def fault_response(error: Exception, request: str) -> HttpResponse:
    """The response for an error of any class.

    Errors of other classes than Rankmesh's go to the log, with the name of the `request`.
    """
    if not isinstance(error, (RankmeshError, MemoryError)):
        _LOG.error("%s failed", request, exc_info=error)
    fault = fault_of(error)
    headers: list[Header] = []
    if fault.retry_after is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after))
    return json_response(ErrorMessage(fault.text, fault.depth), fault.status, headers)
