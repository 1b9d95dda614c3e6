"""Head reader: request heads from their bytes, those that came before without parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .exchange import BadRequest
from .head_parser import HeadParser
from .request_head import RequestHead

_END = b"\r\n\r\n"
_KEPT = 256
_KEPT_BYTES = 2048


class HeadReader:
    """Reads the heads of one server's requests.

    Most clients send the same head with every request, so those that were read last are kept by
    their bytes.
    """

    def __init__(
        self, most_headers: int, most_bytes: int, immediate: Callable[[RequestHead], int | None]
    ) -> None:
        """A head may have `most_headers` and `most_bytes`; for `immediate` of one that is kept see
        RequestHead.
        """
        self._most = most_headers
        self._most_bytes = most_bytes
        self._immediate = immediate
        self._kept: dict[bytes, RequestHead] = {}

    def end(self, data: bytearray) -> int:
        """Where the head that is first in these bytes ends, 0 while its end is not there. Empty
        lines before it are removed. Raises BadRequest.
        """
        end, most = data.find(_END), self._most_bytes
        if end == 0:
            data[:] = data.lstrip(b"\r\n")
            end = data.find(_END)
        if end > most or end < 0 and len(data) > most:
            raise BadRequest(431, f"the headers have more than {most} bytes.")
        return 0 if end < 0 else end + len(_END)

    def read(self, data: bytes) -> tuple[RequestHead, HeadParser | None]:
        """The head that `data` is, and the parser that goes on with its body where that comes in
        chunks. Raises BadRequest.
        """
        head = self._kept.get(data)
        if head is not None:
            return head, None
        parser = HeadParser(self._most, self._most_bytes)
        head = parser.parse(data)
        if head.length is None:
            return head, parser
        return self._keep(data, head) if len(data) <= _KEPT_BYTES else head, None

    def _keep(self, data: bytes, head: RequestHead) -> RequestHead:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        head = replace(head, immediate=self._immediate(head))
        self._kept[data] = head
        return head
