"""The tutorial's blocks run in order, as a reader would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
SAMPLE = ROOT / "launch" / "sample"


def blocks(language: str) -> list[str]:
    """The page's code blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("command", blocks("console"))
def test_commands_succeed(command: str) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=SAMPLE,
        env={**os.environ, "RANKMESH_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    if "--expect" in arguments:
        assert done.stdout.splitlines()[-1].startswith("OK: 2 outputs of 2 ranks match")


def test_the_program_survives_the_death_of_a_rank() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks("python"))],
        cwd=SAMPLE,
        env={**os.environ, "RANKMESH_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    *ranks, recovered = done.stdout.splitlines()
    assert [line.split()[-1] for line in ranks] == ["ready"] * 4
    assert re.fullmatch(r"\d+ 1 .*SIGKILL.*", recovered), recovered
