"""Head reader: request heads from their bytes, those that came before without parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .request_head import HeadParser, RequestHead

_KEPT = 256
_KEPT_BYTES = 2048


class HeadReader:
    """Reads the heads of one server's requests.

    Most clients send the same head with every request, so those that were read last are kept by
    their bytes.
    """

    def __init__(self, most_headers: int, immediate: Callable[[RequestHead], bool]) -> None:
        """A head may have `most_headers`; `immediate` tells whether requests with one that is kept
        may be begun without a task.
        """
        self._most = most_headers
        self._immediate = immediate
        self._kept: dict[bytes, RequestHead] = {}

    def read(self, data: bytes) -> tuple[RequestHead, HeadParser | None]:
        """The head that `data` is, and the parser that goes on with its body where that comes in
        chunks. Raises BadRequest.
        """
        head = self._kept.get(data)
        if head is not None:
            return head, None
        parser = HeadParser(self._most)
        head = parser.parse(data)
        if head.length is None:
            return head, parser
        return self._keep(data, head) if len(data) <= _KEPT_BYTES else head, None

    def _keep(self, data: bytes, head: RequestHead) -> RequestHead:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        if self._immediate(head):
            head = replace(head, immediate=True)
        self._kept[data] = head
        return head
