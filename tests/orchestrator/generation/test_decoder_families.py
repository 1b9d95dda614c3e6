"""Families of decoders: on one to three ranks, each gives the tokens that transformers gives.

`tests/oracle/decoders.py` made them. The best logit leads by a thousandth of the largest at each
step, so that each chosen token is the reference's best one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankmesh import Orchestrator
from rankmesh.orchestrator.config.settings import ModelSettings

DATA = Path(__file__).parents[2] / "data" / "decoders"
REFERENCES = json.loads((DATA / "references.json").read_text())
INEXACT = ("gpt_oss",)
"""Mixtures of experts, whose products round by how many rows an expert gets."""


@pytest.mark.parametrize("name", REFERENCES)
def test_one_rank_gives_the_tokens_of_transformers(name: str, tmp_path: Path) -> None:
    check(name, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ranks"), [(name, 2 + at % 2) for at, name in enumerate(REFERENCES)]
)
def test_several_ranks_do_so(name: str, ranks: int, tmp_path: Path) -> None:
    check(name, ranks, tmp_path)


def check(name: str, ranks: int, cache: Path) -> None:
    found = REFERENCES[name]
    with Orchestrator(ModelSettings(str(DATA / name), ranks=ranks, cache=str(cache))) as orch:
        texts = orch.generate([one["prompt"] for one in found], max_tokens=24, ignore_eos=True)
        (status,) = orch.status().decoders
    assert [list(one.tokens) for one in texts] == [one["tokens"] for one in found]
    assert bool(status.inexact) == (name in INEXACT)
