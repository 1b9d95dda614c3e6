"""gRPC client: one channel to a server, for messages in their encoded form."""

from __future__ import annotations

import grpc

from ....comm.errors import UsageError
from .reply import RequestFailed
from .server_address import ServerAddress, TlsOptions

_SERVICE = "/inference.GRPCInferenceService/"
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # clients do not share a connection
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


class GrpcClient:
    """A channel, which connects when it is needed."""

    def __init__(self, address: ServerAddress) -> None:
        """Raises UsageError where a file of TLS cannot be read."""
        token = address.token
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._channel = (
            grpc.aio.insecure_channel(address.name, _OPTIONS)
            if address.tls is None
            else grpc.aio.secure_channel(address.name, _credentials(address.tls), _OPTIONS)
        )
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable] = {}

    async def call(self, method: str, message: bytes, timeout: float) -> bytes:
        """The answer to a call of the inference service. Raises RequestFailed."""
        if method not in self._methods:
            self._methods[method] = self._channel.unary_unary(_SERVICE + method)
        try:
            answer: bytes = await self._methods[method](
                message, timeout=timeout, metadata=self._metadata
            )
            return answer
        except grpc.aio.AioRpcError as error:
            raise RequestFailed(error.code().name, error.details() or "no reason is told") from None

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


def _credentials(tls: TlsOptions) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(_read(tls.ca), _read(tls.key), _read(tls.certificate))


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
