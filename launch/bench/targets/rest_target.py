"""REST target: a model of a server that speaks the Open Inference Protocol over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ....comm.arrays import Array
from ....comm.errors import UsageError
from ....orchestrator.server.page.overview import Overview
from ....orchestrator.server.rest.messages import IndexEntry
from .http_client import HttpClient
from .observation import Observation, Setup
from .rank_times import setup_of, with_ranks
from .reply import HttpReply, Reply, RequestFailed
from .rest_messages import ModelPage, infer_body, outputs_of, specs_of
from .server_address import ServerAddress
from .statistics import StatisticsMessage, observed
from .target import BenchedModel, chosen_model

_PATIENCE = 30.0
"""Seconds for a page of the server."""


class RestTarget:
    """A model of a server; `form` of tensors is `binary` or `json`."""

    def __init__(self, address: ServerAddress, form: str) -> None:
        self.model = BenchedModel("", "", (), ())
        self.protocol = f"REST, {form}"
        self._address = address
        self._form = form
        self._context = address.tls_context()
        self._pages = HttpClient(address, self._context)
        self._request = b""
        self._told = True
        """Whether the server may have the document of Rankmesh's page."""

    async def find(self, name: str | None, version: str) -> None:
        """Ask the server for the model, by default the only one. Raises UsageError."""
        try:
            if name is None:
                index = await self._page("POST", "/v2/repository/index", list[IndexEntry])
                name = chosen_model(None, sorted({one.name for one in index}))
            self.model = BenchedModel(name, version, (), ())
            page = await self._page("GET", self._path(), ModelPage)
        except RequestFailed as error:
            raise UsageError(f"{self._address.name}: {error}") from None
        self.model = BenchedModel(name, version, specs_of(page.inputs), specs_of(page.outputs))

    async def setup(self) -> Setup:
        """See Target."""
        overview = await self._overview()
        if overview is None:
            return Setup(batchable=self.model.batchable)
        return setup_of(overview, self.model)

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        """See Target."""
        body, head = infer_body(inputs, self._form == "binary")
        fields = {"Content-Type": "application/json"}
        if head is not None:
            fields = {
                "Content-Type": "application/octet-stream",
                "Inference-Header-Content-Length": str(head),
            }
        self._request = self._message("POST", f"{self._path()}/infer", body, fields)

    def connection(self) -> RestCaller:
        """See Target."""
        return RestCaller(HttpClient(self._address, self._context), self._request)

    def outputs(self, reply: Reply) -> Mapping[str, Array]:
        """See Target."""
        assert isinstance(reply, HttpReply)
        return outputs_of(reply)

    async def observe(self) -> Observation:
        """See Target."""
        page = await self._page("GET", f"{self._path()}/stats", StatisticsMessage)
        found, overview = observed(page.model_stats), await self._overview()
        return found if overview is None else with_ranks(found, overview, self.model)

    async def close(self) -> None:
        """See Target."""
        self._pages.close()

    def _path(self) -> str:
        version = f"/versions/{quote(self.model.version, safe='')}" if self.model.version else ""
        return f"/v2/models/{quote(self.model.name, safe='')}{version}"

    async def _overview(self) -> Overview | None:
        """The document of Rankmesh's page; None from other servers, and where it is refused."""
        if self._told:
            try:
                found: Overview = await self._page("GET", "/overview", Overview)
                return found
            except RequestFailed:
                self._told = False
        return None

    async def _page(self, method: str, path: str, kind: Any) -> Any:
        request = self._message(method, path, b"", {})
        return _decoded(_checked(await self._pages.send(request, _PATIENCE)).body, kind)

    def _message(self, method: str, path: str, body: bytes, fields: Mapping[str, str]) -> bytes:
        fields = {"Host": self._address.name, "Content-Length": str(len(body)), **fields}
        if self._address.token is not None:
            fields = {**fields, "Authorization": f"Bearer {self._address.token}"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


class RestCaller:
    """One client of a REST target."""

    def __init__(self, client: HttpClient, request: bytes) -> None:
        self._client = client
        self._request = request

    async def ask(self, timeout: float) -> HttpReply:
        """See BenchClient."""
        return _checked(await self._client.send(self._request, timeout))

    async def close(self) -> None:
        """See BenchClient."""
        self._client.close()


def _checked(reply: HttpReply) -> HttpReply:
    if reply.status != 200:
        raise RequestFailed(f"HTTP {reply.status}", _sentence(reply.body))
    return reply


def _sentence(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
        return str(found["error"])
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
        return repr(body[:200])


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestFailed("answer", f"is no page of the protocol: {error}.") from None
