"""Hostile requests of HTTP: a grammar of malformed heads and bodies, for a model `echo`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hostile_documents import SHAPES, SIZE, HostileDocuments

PATH = "/v2/models/echo/infer"
_TARGETS = (
    *("/", "*", "/v2", "/v2/", "//v2", "/v2/models/echo", "/v2/models/other/infer", PATH + "/"),
    *("/v2/models/echo/versions/1/infer", "/v2/models/echo/versions/-1/infer", "/metrics"),
    *("/v2/models/%65cho/infer", "/v2/models/ech%ff/infer", "/v2/models/..%2f..%2fetc/infer"),
    *("/v2/models/echo/versions/99999999999999999999/infer", "/v2/models//infer", "/v2/%zz"),
    *("http://localhost" + PATH, "http://", "/../../etc/passwd", "/v2/models/echo/config?a=%00"),
    *("/v2/repository/index", "/v2/repository/models/echo/unload", "/v2/logging"),
    *("/v2/repository/models/..%2fx/load", "/v2/trace/setting", "/v2/systemsharedmemory/status"),
    *("/v2/systemsharedmemory/region/a/register", "/v2/cudasharedmemory/region/a/register"),
    *("/v2/models/echo/trace/setting", "/v2/models/stats", "/v2/openapi.json", "/" + "a" * 5000),
)
_METHODS = ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "PRI", "post")
_NUMBERS = (
    "0",
    "1",
    "-1",
    "+5",
    "0x10",
    "1e3",
    " 7 ",
    "7, 7",
    "99999999999999999999",
    "",
    "a",
    "7;",
)
_CODINGS = ("chunked", "Chunked", "chunked, identity", "gzip, chunked", "xchunked", "chunked\t", "")
_HEADERS = (
    *(
        "Transfer-Encoding : chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Host: a\r\nHost: b",
    ),
    *("X: a\r\n folded", "X\0: 1", "X: \x01", ": nothing", "no colon", "X: " + "y" * 9000, "é: é"),
    *("Connection: close", "Connection: keep-alive, upgrade\r\nUpgrade: h2c", "Upgrade: websocket"),
    *(
        "Expect: 100-continue",
        "Expect: 200-ok",
        "Origin: http://evil.example",
        "Host: evil.example",
    ),
    *("Content-Encoding: br", "Content-Encoding: gzip, gzip", "Authorization: Bearer x", "TE: x"),
    *("traceparent: 00-0-0-0", "X-Request-Id: " + "\t" * 50, "Content-Type: text/plain\r\n" * 120),
)


@dataclass
class Head:
    """The parts of a request before its body."""

    method: str = "POST"
    target: str = PATH
    version: str = "HTTP/1.1"
    lines: list[str] = field(default_factory=lambda: ["Host: localhost"])

    def encoded(self) -> bytes:
        first = f"{self.method} {self.target} {self.version}"
        return "\r\n".join([first, *self.lines, "", ""]).encode("utf-8", "surrogatepass")


class HostileRest:
    """Draws requests: what is sent on one connection, and whether the client then sends its end."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._documents = HostileDocuments(random)
        self._kinds: list[Callable[[], bytes]] = [
            *(self._documented, self._documented, self._documented, self._binary, self._compressed),
            *(self._chunked, self._headed, self._pipelined, self._mutated, self._rubbish),
        ]

    def draw(self) -> tuple[bytes, bool]:
        sent = self._random.choice(self._kinds)()
        if self._random.random() < 0.1:
            return sent[: self._random.randrange(len(sent) + 1)], True
        return sent, self._random.random() < 0.05

    def valid(self) -> bytes:
        """A request without a fault."""
        text = json.dumps(self._documents.sound()).encode()
        return Head(lines=["Host: localhost", f"Content-Length: {len(text)}"]).encoded() + text

    def _documented(self) -> bytes:
        """A document with a fault or two, on any path."""
        text = self._documents.spoilt()
        target = PATH if self._random.random() < 0.8 else self._random.choice(_TARGETS)
        return self._posted(text, target)

    def _binary(self) -> bytes:
        """Tensors behind the document, with lengths that do not fit."""
        choose = self._random.choice
        document = self._documents.sound()
        x = document["inputs"][0]
        del x["data"]
        size = choose([4 * SIZE, 4 * SIZE, 0, -4, 4 * SIZE + 1, 1 << 62, 10**30, 32.0, "32", True])
        x["parameters"] = {"binary_data_size": size}
        if self._random.random() < 0.3:
            x["shape"] = choose(SHAPES)
        text = json.dumps(document).encode()
        tail = self._random.randbytes(choose([4 * SIZE, 4 * SIZE, 0, 1, 4 * SIZE - 1, 1000]))
        length = choose([str(len(text)), str(len(text)), "0", str(len(text) + 5), *_NUMBERS])
        return self._posted(text + tail, PATH, f"Inference-Header-Content-Length: {length}")

    def _compressed(self) -> bytes:
        """Bodies that inflate to too much, are damaged, or are not what their header says."""
        choose = self._random.choice
        plain = choose([json.dumps(self._documents.sound()).encode(), _BOMB, b"", b"x" * 5000])
        body = plain if plain is _BOMB else zlib.compress(plain, 6)
        if self._random.random() < 0.3:
            body = body[: self._random.randrange(len(body) + 1)] + self._random.randbytes(3)
        return self._posted(body, PATH, f"Content-Encoding: {choose(['deflate', 'gzip', 'x', ''])}")

    def _chunked(self) -> bytes:
        """A body in chunks, of which some are malformed."""
        choose = self._random.choice
        text = json.dumps(self._documents.sound()).encode()
        at = self._random.randrange(len(text))
        chunks = []
        for part in (text[:at], text[at:]):
            size = choose(
                [b"%x" % len(part)] * 6
                + [b"-1", b"f" * 17, b"x", b"", b"0x5", b"5;" + b"e" * 20000]
            )
            chunks.append(
                size
                + choose([b"\r\n"] * 6 + [b"\n", b" \r\n"])
                + part
                + choose([b"\r\n"] * 6 + [b""])
            )
        end = choose(
            [b"0\r\n\r\n"] * 4 + [b"0\r\nX: y\r\n\r\n", b"0\r\n" + b"X: y\r\n" * 500 + b"\r\n", b""]
        )
        lines = ["Host: localhost", f"Transfer-Encoding: {choose(_CODINGS[:1] * 6 + _CODINGS)}"]
        if self._random.random() < 0.2:
            lines.append(f"Content-Length: {choose(_NUMBERS)}")
        return Head(lines=lines).encoded() + b"".join(chunks) + end

    def _headed(self) -> bytes:
        """A malformed head, perhaps before a sound body."""
        choose = self._random.choice
        text = json.dumps(self._documents.sound()).encode()
        lengths = [str(len(text))] * 3 + list(_NUMBERS)
        head = Head(lines=["Host: localhost", f"Content-Length: {choose(lengths)}"])
        which = self._random.randrange(5)
        if which == 0:
            head.method = choose([*_METHODS, "", "P\0ST", "A" * 5000])
        elif which == 1:
            head.target = choose([*_TARGETS, "", "x", "/ /", "/\0", "/é"])
        elif which == 2:
            head.version = choose(
                ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.1 x", "", "http/1.1", "HTTP/9"]
            )
        elif which == 3:
            head.lines = [] if self._random.random() < 0.3 else head.lines[1:]
        for _ in range(self._random.randint(0, 3)):
            head.lines.insert(self._random.randrange(len(head.lines) + 1), choose(_HEADERS))
        encoded = head.encoded()
        if self._random.random() < 0.1:
            encoded = encoded.replace(b"\r\n", choose([b"\n", b"\r", b"\n\r"]))
        return encoded + text

    def _pipelined(self) -> bytes:
        """Several requests at once, some of them sound."""
        others = [
            self.valid,
            self.valid,
            self._documented,
            self._binary,
            self._chunked,
            self._headed,
        ]
        return b"".join(self._random.choice(others)() for _ in range(self._random.randint(2, 6)))

    def _mutated(self) -> bytes:
        """A sound request of which some bytes are others, lost or doubled."""
        found = bytearray(self.valid())
        for _ in range(self._random.randint(1, 8)):
            at = self._random.randrange(len(found))
            which = self._random.randrange(3)
            if which == 0:
                found[at] = self._random.randrange(256)
            elif which == 1:
                del found[at : at + self._random.randint(1, 9)]
            else:
                found[at:at] = found[at : at + self._random.randint(1, 9)]
            found = found or bytearray(b"x")
        return bytes(found)

    def _rubbish(self) -> bytes:
        """Bytes of another protocol, or of none."""
        rubbish = self._random.randbytes(self._random.randint(1, 400))
        others = (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
            b"\r\n" * 300,
        )
        return self._random.choice(
            [rubbish, rubbish + b"\r\n\r\n", *others, b"SSH-2.0-x\r\n", b"\0" * 40_000]
        )

    def _posted(self, body: bytes, target: str, *lines: str) -> bytes:
        length = f"Content-Length: {len(body)}"
        return Head(target=target, lines=["Host: localhost", length, *lines]).encoded() + body


_BOMB = zlib.compress(b"\0" * (64 << 20), 9)
"""64 MiB in 64 KB."""
