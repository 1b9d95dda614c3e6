"""The registry of launchers."""

from __future__ import annotations

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.launch.launchers.launchers import LAUNCHERS, launcher_named
from rankmesh.launch.launchers.local_launcher import LocalLauncher
from rankmesh.launch.launchers.mpirun_launcher import MpirunLauncher

pytestmark = pytest.mark.pure


def test_each_name_has_its_launcher() -> None:
    assert set(LAUNCHERS) == {"local", "mpirun"}
    assert isinstance(launcher_named("local"), LocalLauncher)
    assert isinstance(launcher_named("mpirun"), MpirunLauncher)


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="--launcher slurm: expected local or mpirun"):
        launcher_named("slurm")
