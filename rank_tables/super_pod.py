"""A super pod of a rank table: servers whose devices share one fast network, as v1.2 tables list them."""

from __future__ import annotations

import msgspec


class SuperPod(msgspec.Struct, frozen=True):
    """One super pod: its id and the server_id of each of its servers."""

    super_pod_id: str
    server_ids: tuple[str, ...]
