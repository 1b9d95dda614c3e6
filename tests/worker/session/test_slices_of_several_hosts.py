"""Slices for ranks on several hosts: rank 0 slices once, into a folder that all hosts share."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Host, TwoHosts, why_not
from processes import rankmesh
from sliced import example

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

SCRIPT = """import sys
import numpy as np
import rankmesh

folder, rank = sys.argv[1:]
context = rankmesh.Context()
context.target = ["ascend"]
context.ascend.rank_id = int(rank)
config = {
    "ascend_context": {"rank_table_file": f"{folder}/table.json"},
    "slicing": {"slice": "tensor=2", "slice_dir": f"{folder}/kept"},
}
model = rankmesh.Model()
try:
    model.build_from_file(
        f"{folder}/model.onnx", rankmesh.ModelType.MINDIR, context, config_dict=config
    )
except rankmesh.ModelError as error:
    print("refused:", error, flush=True)
    sys.exit()
case = np.load(f"{folder}/model.npz")
model.resize(model.get_inputs(), [case["ids"].shape])
(logits,) = model.predict([case["ids"]])
print("right" if np.abs(logits.get_data_to_numpy() - case["logits"]).max() < 1e-5 else "wrong")
"""
HIDDEN = 'mount -t tmpfs none "$1" && shift && exec "$@"'


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    with TwoHosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


def printed(hosts: TwoHosts, folder: Path, before: tuple[object, ...] = ()) -> list[str]:
    """What the script prints on each host; `before` goes before the command of the second."""

    def start(host: Host, rank: int, *more: object) -> subprocess.Popen[str]:
        return host.start(*more, sys.executable, folder / "script.py", folder, rank)

    ranks = [start(hosts.one, 0), start(hosts.two, 1, *before)]
    try:
        texts = [rank.communicate(timeout=110) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [out + ("" if out else errors) for out, errors in texts]


def test_one_host_slices_for_all(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    assert rankmesh("key", "make", key).returncode == 0
    monkeypatch.setenv("RANKMESH_KEY_FILE", str(key))
    hosts.rank_table(tmp_path / "table.json", 1)
    example().main(tmp_path / "model.onnx")
    (tmp_path / "script.py").write_text(SCRIPT)
    assert printed(hosts, tmp_path) == ["right\n", "right\n"]
    (kept,) = (tmp_path / "kept").glob("model-*")
    assert "model_rank1.onnx" in os.listdir(kept)
    hidden = ("unshare", "--mount", "sh", "-c", HIDDEN, "sh", tmp_path / "kept")
    words = f"its shards into {kept}, which two does not have. Let slice_dir in"
    for text in printed(hosts, tmp_path, hidden):
        assert text.startswith("refused:") and words in text
