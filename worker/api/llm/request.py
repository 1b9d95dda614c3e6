"""A request to an LLM engine: one conversation with its ids and lengths."""

from __future__ import annotations

import itertools
import socket
import sys
from enum import Enum
from typing import Any

from ...api_types.arguments import Attribute, check_type

_LARGEST = 2**64 - 1


def check_uint64(name: str, value: Any) -> None:
    """TypeError unless `value` is an int, ValueError unless it fits into 64 bits without a sign."""
    check_type(name, value, int)
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} value should be in range [0, UINT64_MAX], but got {value}.")


class UInt64(Attribute[int]):
    """An int of 64 bits without a sign."""

    def __init__(self, label: str, default: int = 0) -> None:
        super().__init__(default, label)

    def checked(self, value: int) -> int:
        """See Attribute."""
        check_uint64(self.label, value)
        return value


class LLMReq:
    """One inference task of several rounds."""

    req_id = UInt64("req_id")
    prompt_length = UInt64("prompt_length")
    prompt_cluster_id = UInt64("prompt_cluster_id")
    decoder_cluster_id = UInt64("decoder_cluster_id")
    prefix_id = UInt64("prefix_id", _LARGEST)  # no prefix
    sequence_length = UInt64("sequence_length")

    _ids = itertools.count()  # one C call each: threads get no number twice

    def __init__(self, prompt_cluster_id: int, req_id: int, prompt_length: int) -> None:
        self.prompt_cluster_id = prompt_cluster_id
        self.req_id = req_id
        self.prompt_length = prompt_length

    @staticmethod
    def next_req_id() -> int:
        """A number that no request of this process has got here; the first is 0. Threads may ask at
        once.
        """
        return next(LLMReq._ids)


_LARGEST_IP, _LARGEST_PORT = 2**32 - 1, 65535
_EXPECTED = "address must be in format of ('xxx.xxx.xxx.xxx', xxx) or (xxx, xxx)"
Address = tuple[int, int]


class LLMRole(Enum):
    """The work of a cluster: whole prompts (Prompt), or one token after the other (Decoder)."""

    Prompt = 0
    Decoder = 1


class Role(Attribute[LLMRole]):
    """An LLMRole."""

    def checked(self, value: LLMRole) -> LLMRole:
        """See Attribute."""
        check_type(self.label, value, LLMRole)
        return value


class LLMClusterInfo:
    """A remote cluster, and the addresses on both sides that link to it.

    An address is (ip, port); the ip is dotted text or an int in this machine's byte order, as which
    it is given back.
    """

    remote_cluster_id = UInt64("remote_cluster_id")
    remote_role = Role(LLMRole.Prompt, "remote_role")

    def __init__(self, remote_role: LLMRole, remote_cluster_id: int) -> None:
        self.remote_cluster_id = remote_cluster_id
        self.remote_role = remote_role
        self._local: list[Address] = []
        self._remote: list[Address] = []

    def append_local_ip_info(self, address: tuple[str | int, int]) -> None:
        """Add an address of this side; TypeError or ValueError where it is none."""
        self._local.append(_numbers(address))

    def append_remote_ip_info(self, address: tuple[str | int, int]) -> None:
        """Add an address of the other side; TypeError or ValueError where it is none."""
        self._remote.append(_numbers(address))

    @property
    def local_ip_infos(self) -> tuple[Address, ...]:
        """The addresses of this side."""
        return tuple(self._local)

    @property
    def remote_ip_infos(self) -> tuple[Address, ...]:
        """The addresses of the other side."""
        return tuple(self._remote)


def _numbers(address: Any) -> Address:
    if not isinstance(address, tuple) or len(address) != 2:
        raise TypeError(f"{_EXPECTED}, but got {address}")
    ip, port = address
    if not isinstance(ip, (str, int)) or not isinstance(port, int):
        raise TypeError(f"{_EXPECTED}, but got {address}")
    if isinstance(ip, int) and not 0 <= ip <= _LARGEST_IP:
        raise ValueError(f"address ip should in range [0,{_LARGEST_IP}], but got {ip}")
    if not 0 <= port <= _LARGEST_PORT:
        raise ValueError(f"address port should in range [0,{_LARGEST_PORT}], but got {port}")
    return _ip_number(ip, address) if isinstance(ip, str) else ip, port


def _ip_number(ip: str, address: object) -> int:
    try:
        return int.from_bytes(socket.inet_aton(ip), sys.byteorder) if "." in ip else int(ip)
    except (OSError, ValueError) as error:
        raise ValueError(f"{_EXPECTED}, but got {address}") from error
