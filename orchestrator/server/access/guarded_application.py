"""Guarded application: answers those requests of HTTP that the gate lets pass."""

from __future__ import annotations

from ..faults import RoleMissing, TokenMissing, TooManyRequests, fault_of
from ..http.exchange import (
    Application,
    Header,
    HttpRequest,
    HttpResponse,
    error_response,
)
from ..http.request_head import RequestHead
from .gate import Gate
from .roles import role_of_path
from .tokens import AccessToken

REFUSALS = (TokenMissing, RoleMissing, TooManyRequests)


class GuardedApplication:
    """An application behind a gate."""

    def __init__(self, inner: Application, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """See Application."""
        try:
            if not request.admitted:
                admit(self._gate, request, request.client)
        except REFUSALS as error:
            return _refusal(error)
        return await self._inner.answer(request)


def admit(gate: Gate, request: HttpRequest | RequestHead, client: str) -> AccessToken | None:
    """Have a request of a client's address pass the gate: its token, if it needs one. Raises one of
    REFUSALS.
    """
    role = role_of_path(request.method, request.path)
    if role is None:
        return None
    given = request.headers.get(b"authorization", b"").decode("latin-1")
    token = gate.admit(role, given)
    gate.count(token, client)
    return token


def _refusal(error: TokenMissing | RoleMissing | TooManyRequests) -> HttpResponse:
    fault = fault_of(error)
    headers: list[Header] = []
    if isinstance(error, TokenMissing):
        found = b"" if error.known else b', error="invalid_token"'
        headers.append((b"www-authenticate", b'Bearer realm="rankmesh"' + found))
    if isinstance(error, RoleMissing):
        headers.append(
            (b"www-authenticate", b'Bearer realm="rankmesh", error="insufficient_scope"')
        )
    if fault.retry_after is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after))
    return error_response(fault.status, fault.text, headers)
