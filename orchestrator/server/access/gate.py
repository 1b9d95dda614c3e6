"""Gate of the server: lets a request pass by its token, its role and its rate."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from ....comm.errors import UsageError
from ..faults import RoleMissing, TokenMissing, TooManyRequests
from ..observation.record import CURRENT
from .rates import CallerRates, Rates, RequestRate
from .roles import AccessRole
from .tokens import AccessToken, AccessTokens

_LOG = logging.getLogger("rankmesh.server")
_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Settings of the gate."""

    tokens: str | None = None
    """A file of tokens; None: every client may do everything that the server offers."""

    rate: float | None = None
    """Requests a second of each token that has no rate of its own; without tokens, of each
    address. None: no limit.
    """

    burst: float | None = None
    """How many of them at once; None: those of a second."""


class Gate:
    """Checks requests; the file of tokens can be read again."""

    def __init__(self, settings: AccessSettings, rates: Rates | None = None) -> None:
        """`rates` are those of all processes of the server, where there are several.

        Raises UsageError where the file of tokens cannot be used.
        """
        if settings.burst is not None and settings.rate is None:
            raise UsageError("got a burst without a rate: give --rate too.")
        self._settings = settings
        self._default = RequestRate.of(settings.rate, settings.burst)
        self._rates = rates or CallerRates()
        self._tokens = None if settings.tokens is None else AccessTokens.read(settings.tokens)

    @classmethod
    def wanted(cls, settings: AccessSettings, rates: Rates | None = None) -> Gate | None:
        """A gate where the settings ask for one."""
        if settings == AccessSettings():
            return None
        return cls(settings, rates)

    def reload(self) -> None:
        """Use the file as it is now; where it cannot be used, go on with the last tokens."""
        if self._settings.tokens is None:
            return
        try:
            self._tokens = AccessTokens.read(self._settings.tokens)
        except UsageError as error:
            _LOG.error("the tokens stay as they were: %s", error)
        else:
            _LOG.info("the file of tokens was read again")

    def admit(self, role: AccessRole, authorization: str) -> AccessToken | None:
        """The token of a header `Authorization`; None where the server has no tokens.

        Raises TokenMissing and RoleMissing.
        """
        if self._tokens is None:
            return None
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != _SCHEME:
            raise TokenMissing("a token is needed: send the header `Authorization: Bearer TOKEN`.")
        token = self._tokens.find(secret.strip().encode("utf-8", "surrogateescape"))
        if token is None:
            raise TokenMissing("this token is not known.", known=False)
        record = CURRENT.get()
        if record is not None:
            record.token = token.name
        if role not in token.roles:
            raise RoleMissing(f"the token '{token.name}' has not the role `{role.value}`.")
        return token

    def count(self, token: AccessToken | None, client: str) -> None:
        """Count one request of a token, or of a client's address. Raises TooManyRequests."""
        allowed = (token.rate if token is not None else None) or self._default
        if allowed is None:
            return
        caller = f"address {client}" if token is None else f"token {token.name}"
        seconds = self._rates.take(caller, allowed)
        if seconds:
            raise TooManyRequests(
                f"more than {allowed.rate:g} requests a second: send the next one later.",
                math.ceil(seconds),
            )
