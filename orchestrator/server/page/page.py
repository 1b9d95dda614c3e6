"""Page: the one file that a browser gets, with the headers that keep everything else out.

The file has no data, and all clients get the same one. Its script asks for the overview.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from ..http.exchange import HttpResponse

_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


def page() -> HttpResponse:
    """The page; the headers permit the script and the style that it has, and no others."""
    html, policy = _page()
    return HttpResponse(
        200,
        (html,),
        (
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy),
            (b"cache-control", b"no-store"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
        ),
    )


@cache
def _page() -> tuple[bytes, bytes]:
    """The file, and its Content-Security-Policy."""
    html = Path(__file__).with_name("page.html").read_bytes()
    hashes = {kind: _hash(content) for kind, content in _INLINE.findall(html)}
    rules = [
        b"default-src 'none'",
        b"style-src " + hashes[b"style"],
        b"script-src " + hashes[b"script"],
        b"connect-src 'self'",
        b"img-src data:",  # of the empty icon, for which browsers ask the server otherwise
        b"base-uri 'none'",
        b"form-action 'none'",
        b"frame-ancestors 'none'",
        b"require-trusted-types-for 'script'",
    ]
    return html, b"; ".join(rules)


def _hash(content: bytes) -> bytes:
    return b"'sha256-%s'" % base64.b64encode(hashlib.sha256(content).digest())
