"""A second host for tests of agents: a network namespace, with a cable that can be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host_beside import HostBeside


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBeside]:
    """The other host."""
    with HostBeside(tmp_path_factory.mktemp("far")) as host:
        yield host
