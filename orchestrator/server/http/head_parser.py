"""Head parser: reads the head of a request, and a body in chunks, by httptools."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import unquote_to_bytes

import httptools

from .exchange import BadRequest
from .request_head import RequestHead


class BodySink(Protocol):
    """The receiver of a body that comes in chunks."""

    def add(self, data: bytes) -> None:
        """The next part."""

    def end(self) -> None:
        """The body is complete."""


class HeadParser:
    """Parses the head of one request, and after it the chunks of its body."""

    def __init__(self, most_headers: int, most_bytes: int) -> None:
        """A head and its trailer may have `most_headers`. A trailer may have `most_bytes`, and so
        may what a chunk has beside its data.
        """
        self._parser = httptools.HttpRequestParser(self)
        self._most = most_headers
        self._most_bytes = most_bytes
        self._silent = 0
        """Bytes since the last ones of the body: the library keeps them, however many come."""

        self._trailer = 0
        self._count = 0
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._complete = False
        self._keep_alive = False
        self._ended = False
        self.overrun = False
        """Whether bytes behind a body in chunks were dropped, so that no request can follow."""

        self._sink: BodySink | None = None

    def parse(self, data: bytes) -> RequestHead:
        """The head that `data` is, with the empty line at its end. Raises BadRequest."""
        self._feed(data)
        if not self._complete:
            raise BadRequest(400, "the headers of the request are malformed.")
        headers = self._headers
        chunked = b"transfer-encoding" in headers
        if chunked and headers[b"transfer-encoding"].lower() != b"chunked":
            raise BadRequest(501, "transfer-encoding: expected chunked, and no other.")
        length = None if chunked else int(headers.get(b"content-length", b"0"))
        old = self._parser.get_http_version() == "1.0"
        if b"host" not in headers and not old:
            raise BadRequest(400, "the header Host is missing.")
        return RequestHead(
            self._parser.get_method().decode("latin-1"),
            _path(self._target),
            headers,
            length,
            self._keep_alive and not old,  # its clients await a header that says so
        )

    def feed_chunks(self, data: bytes, sink: BodySink) -> None:
        """Parse the next bytes of a body in chunks. Raises BadRequest."""
        self._sink = sink
        self._silent += len(data)
        self._feed(data)
        self._require_short(self._silent)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # the other protocol is not spoken: HTTP goes on
            return
        except httptools.HttpParserError as error:
            if self.overrun:
                return
            cause = error.__context__
            if isinstance(cause, BadRequest):
                raise cause from None
            raise BadRequest(400, f"the request is malformed: {error}.") from None

    def on_message_begin(self) -> None:
        """Drop what follows a body in chunks: its place in the bytes is not known."""
        if self._ended:
            self.overrun = True
            raise BadRequest(400, "a request follows a body in chunks before its response.")

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header, or drop one that follows a body."""
        self._count += 1
        if self._count > self._most:
            raise BadRequest(431, f"the request has more than {self._most} headers.")
        if self._complete:
            self._trailer += len(name) + len(value)
            self._require_short(self._trailer)
            return
        name = name.lower()
        before = self._headers.get(name)
        if before is not None and name == b"host":
            raise BadRequest(400, "the header Host stands there twice.")
        self._headers[name] = value if before is None else b"%b, %b" % (before, value)

    def on_headers_complete(self) -> None:
        """Note the end of the headers, and whether more requests may follow: the parser no longer
        knows at the end of a request without a body.
        """
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """Hand on a part of a body in chunks."""
        if self._sink is None:
            raise BadRequest(400, "the headers of the request are malformed.")
        self._silent = 0
        self._sink.add(data)

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self._ended = True
        self._silent = 0
        if self._sink is not None:
            self._sink.end()

    def _require_short(self, count: int) -> None:
        if count > self._most_bytes:
            raise BadRequest(
                431, f"a chunk, or the trailer, has more than {self._most_bytes} bytes of headers."
            )


def _path(target: bytes) -> list[str]:
    """The parts of a target's path, each decoded; of `/v2/models` ["v2", "models"]."""
    path = target.partition(b"?")[0]
    if not path.startswith(b"/"):  # an absolute URL, which proxies are sent
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    parts = path[1:].split(b"/")
    if b"%" in path:
        parts = [unquote_to_bytes(part) for part in parts]
    return [part.decode("utf-8", "replace") for part in parts]
