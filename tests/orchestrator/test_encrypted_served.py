"""An orchestrator with a key: it serves what the key vouches for, and nothing in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from encrypted import KEY, encrypt_file
from mindir_models import DATA

from rankmesh import ModelError, Orchestrator

NAME = "dist_tp_mlp_2"


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))


def test_encrypted_shards_are_served_and_nothing_of_them_is_kept(tmp_path: Path) -> None:
    for rank in range(2):
        encrypt_file(
            DATA / NAME / f"{NAME}_rank{rank}.mindir", tmp_path / f"m{rank}.mindir", "AES-GCM", 4096
        )
    saved = np.load(DATA / NAME / f"{NAME}.npz")
    with Orchestrator(str(tmp_path / "m{rank}.mindir")) as one:
        outputs = one.predict({"x": saved["in_0"]})
    np.testing.assert_allclose(next(iter(outputs.values())), saved["out_0"], rtol=1e-4, atol=1e-5)
    assert not [name for _, _, names in os.walk(tmp_path / "cache" / "entries") for name in names]


def test_plain_shards_in_their_place_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the model cache knows them."""
    for rank in range(2):
        shutil.copy(DATA / NAME / f"{NAME}_rank{rank}.mindir", tmp_path / f"m{rank}.mindir")
    monkeypatch.delenv("RANKMESH_KEY")
    Orchestrator(str(tmp_path / "m{rank}.mindir")).close()
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    with pytest.raises(ModelError, match="is not encrypted, and a key was given"):
        Orchestrator(str(tmp_path / "m{rank}.mindir"))
    monkeypatch.setenv("RANKMESH_ALLOW_UNAUTHENTICATED", "1")
    Orchestrator(str(tmp_path / "m{rank}.mindir")).close()
