"""Models on agents' hosts: shared by a path, else sent once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from agents import Agents
from moody import expected, inputs, moody, wait_ready
from processes import PATIENCE

from rankmesh import Orchestrator
from rankmesh.worker.cache.store import CacheStore

HIDE = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
"""Runs a command that does not see what is in a folder."""


def received(cache: Path) -> list[str]:
    return [one.manifest.source for one in CacheStore(cache, 1 << 30).entries()]


@pytest.mark.skipif(
    os.getuid() != 0
    or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="a file system of its own for an agent needs root",
)
def test_a_host_without_the_files_gets_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    pattern = moody(folder, 2)
    with Agents(tmp_path) as agents:
        for name, before in (("without", (*HIDE, str(folder))), ("with", ())):
            monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / name))
            agents.start(name, 2, before=before)
        with Orchestrator(pattern, replicas=2, cache=False, **agents.settings) as served:  # type: ignore[arg-type]
            futures = [served.submit(inputs(start=start)) for start in range(8)]
            for start, one in enumerate(futures):
                np.testing.assert_array_equal(
                    one.result(PATIENCE)["y"], expected(inputs(start=start), 2)
                )
            (source,) = received(tmp_path / "without")
            assert source.endswith(" (received)") and received(tmp_path / "with") == []
            agents.ranks("without")[0].kill()
            wait_ready(served)
            answer = served.predict(inputs())
            np.testing.assert_array_equal(answer["y"], expected(inputs(), 2))
        assert len(received(tmp_path / "without")) == 1
    shutil.rmtree(tmp_path / "without")
