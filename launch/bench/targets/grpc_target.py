"""gRPC target: a model of a server that speaks the Open Inference Protocol over gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....comm.arrays import Array
from ....comm.errors import UsageError
from ....orchestrator.server.datatypes import datatype_of, dtype_of, sent_elements
from ....orchestrator.server.grpc.protocol.inference import (
    ModelInferRequest,
    ModelInferResponse,
    ModelMetadataRequest,
    ModelMetadataResponse,
    ModelStatisticsRequest,
    ModelStatisticsResponse,
    RepositoryIndexRequest,
    RepositoryIndexResponse,
)
from .grpc_client import GrpcClient
from .observation import Observation, Setup, TimeSum
from .reply import Reply, RequestFailed
from .rest_messages import received, spec_of
from .server_address import ServerAddress
from .target import BenchedModel, chosen_model

_PATIENCE = 30.0
"""Seconds for a page of the server."""


class GrpcTarget:
    """A model of a server. Messages of inference are sent and kept in their encoded form."""

    protocol = "gRPC"

    def __init__(self, address: ServerAddress) -> None:
        self.model = BenchedModel("", "", (), ())
        self._address = address
        self._request = b""
        address.tls_context()  # tells which file cannot be used; gRPC does not
        self._pages = GrpcClient(address)

    async def find(self, name: str | None, version: str) -> None:
        """Ask the server for the model, by default the only one. Raises UsageError."""
        try:
            if name is None:
                index = await self._ask("RepositoryIndex", RepositoryIndexRequest())
                found = RepositoryIndexResponse.FromString(index).models
                name = chosen_model(None, sorted({one.name for one in found}))
            asked = ModelMetadataRequest(name=name, version=version)
            page = ModelMetadataResponse.FromString(await self._ask("ModelMetadata", asked))
        except RequestFailed as error:
            raise UsageError(f"{self._address.name}: {error}") from None
        inputs, outputs = (
            tuple(spec_of(one.name, one.datatype, one.shape) for one in tensors)
            for tensors in (page.inputs, page.outputs)
        )
        self.model = BenchedModel(name, version, inputs, outputs)

    async def setup(self) -> Setup:
        """See Target."""
        return Setup(batchable=self.model.batchable)

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        """See Target."""
        message = ModelInferRequest(model_name=self.model.name, model_version=self.model.version)
        for name, array in inputs.items():
            message.inputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
            message.raw_input_contents.append(bytes(sent_elements(array)))
        self._request = message.SerializeToString()

    def connection(self) -> GrpcCaller:
        """See Target."""
        return GrpcCaller(GrpcClient(self._address), self._request)

    def outputs(self, reply: Reply) -> Mapping[str, Array]:
        """See Target."""
        assert isinstance(reply, bytes)
        message = ModelInferResponse.FromString(reply)
        pairs = zip(message.outputs, message.raw_output_contents, strict=False)
        found = {one.name: _array(one, raw) for one, raw in pairs}
        if len(found) < len(message.outputs):
            raise RequestFailed("answer", "has outputs that are not raw.")
        return found

    async def observe(self) -> Observation:
        """See Target."""
        asked = ModelStatisticsRequest(name=self.model.name, version=self.model.version)
        page = ModelStatisticsResponse.FromString(await self._ask("ModelStatistics", asked))
        found = [one.inference_stats for one in page.model_stats]
        return Observation(
            _sum([one.queue for one in found]), _sum([one.compute_infer for one in found])
        )

    async def close(self) -> None:
        """See Target."""
        await self._pages.close()

    async def _ask(self, method: str, message: Any) -> bytes:
        return await self._pages.call(method, message.SerializeToString(), _PATIENCE)


class GrpcCaller:
    """One client of a gRPC target."""

    def __init__(self, client: GrpcClient, request: bytes) -> None:
        self._client = client
        self._request = request

    async def ask(self, timeout: float) -> bytes:
        """See BenchClient."""
        return await self._client.call("ModelInfer", self._request, timeout)

    async def close(self) -> None:
        """See BenchClient."""
        await self._client.close()


def _array(output: Any, raw: bytes) -> Array:
    dtype = dtype_of(output.datatype)
    try:
        if dtype is None:
            raise ValueError(f"has the datatype {output.datatype[:80]}")
        return received(raw, dtype, output.shape)
    except ValueError as error:
        raise RequestFailed("answer", f"the output '{output.name}': {error}.") from None


def _sum(durations: Sequence[Any]) -> TimeSum:
    count = sum(one.count for one in durations)
    return TimeSum(count, sum(one.ns for one in durations) / 1e9)
