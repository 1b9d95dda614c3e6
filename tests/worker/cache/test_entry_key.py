"""The key of an entry changes with everything that the entry depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh.worker.cache import identity as key
from rankmesh.worker.cache.identity import cpu_features, entry_key, source_digest

pytestmark = pytest.mark.pure


def test_the_key_is_stable_and_depends_on_model_and_options() -> None:
    options = {"device": "cpu", "rank": 0}
    assert entry_key("aa", options) == entry_key("aa", dict(reversed(options.items())))
    others = {
        entry_key("ab", options),
        entry_key("aa", {"device": "cpu", "rank": 1}),
        entry_key("aa", {}),
    }
    assert len(others | {entry_key("aa", options)}) == 4


def test_the_key_depends_on_versions_and_cpu(monkeypatch) -> None:
    before = entry_key("aa", {})
    monkeypatch.setattr(key, "cpu_features", lambda: "another CPU")
    another_cpu = entry_key("aa", {})
    monkeypatch.setattr(key, "package_version", lambda package: "0.0.1")
    assert len({before, another_cpu, entry_key("aa", {})}) == 3


def test_the_key_depends_on_modules_of_equal_sizes_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of an installation from a wheel has their hashes."""
    package = tmp_path / "rankmesh-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: rankmesh\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = set()
    for digest in ("aa", "bb"):
        (package / "RECORD").write_text(f"rankmesh/worker/cut.py,sha256={digest},100\n")
        keys.add(entry_key("aa", {}))
    assert len(keys) == 2


def test_the_key_depends_on_modules_of_ranks_and_of_the_compiler(tmp_path: Path) -> None:
    digests = {source_digest(tmp_path)}
    for name in ("compiler/reader.py", "worker/cut.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("a = 1\n")
        digests.add(source_digest(tmp_path))
    assert len(digests) == 3


def test_cpu_features_name_the_instruction_sets() -> None:
    assert "flags" in cpu_features() or "Features" in cpu_features()
