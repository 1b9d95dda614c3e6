"""The addresses of an Ascend host's devices, as its driver's configuration file has them."""

from __future__ import annotations

import os
import re
from pathlib import Path

HCCN_CONF = Path("/etc/hccn.conf")
_ADDRESS = re.compile(r"\s*address_(\d{1,5})\s*=\s*(\S+)\s*", re.ASCII)


def read_device_ips(path: str | os.PathLike[str] = HCCN_CONF) -> dict[int, str]:
    """The device_ip of each device id, from lines `address_0=192.98.30.20`; empty where the file cannot be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = (_ADDRESS.fullmatch(line) for line in lines)
    return {int(match[1]): match[2] for match in found if match}
