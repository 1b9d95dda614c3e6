"""House rules of the package: sizes, names, folders and imports, by tests/support/house.py."""

from __future__ import annotations

from pathlib import Path

import house
import pytest

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def today() -> house.House:
    return house.measure(house.read())


@pytest.mark.parametrize("rule", house.RULES)
def test_rule_holds(rule: str, today: house.House) -> None:
    assert sorted(house.violations(today)[rule]) == []


def package(root: Path, files: dict[str, str]) -> house.House:
    """The figures of a package with these files."""
    for path, text in {"__init__.py": "", "__main__.py": "", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return house.measure(house.read(root))


def test_generated_files_are_exempt(tmp_path: Path) -> None:
    written = '"""Table.\n\nWritten by `python x.py`.\n"""\n' + "a = 1\n" * 500
    found = package(tmp_path, {"comm/a.py": written, "comm/b.py": "def f(): ..."})
    assert (found.modules, found.files["comm/b.py"]) == (4, 1)
    assert "comm/a.py" not in found.files


def test_imports_of_every_kind_make_cycles(tmp_path: Path) -> None:
    found = package(
        tmp_path,
        {
            "comm/__init__.py": "",
            "comm/a.py": "def f():\n    from .inner import b\n",
            "comm/inner/__init__.py": "",
            "comm/inner/b.py": "if TYPE_CHECKING:\n    from ..a import f\n",
            "worker/c.py": "from rankmesh.comm.a import f\nimport rankmesh.worker.d\n",
            "worker/d.py": "from .c import f\nfrom .. import __version__\n",
        },
    )
    assert found.file_cycles == [["comm.a", "comm.inner.b"], ["worker.c", "worker.d"]]
    assert found.folder_cycles == [["comm", "comm.inner"]]
    assert house.violations(found)["cycles of folders"] == {"comm comm.inner"}


def test_sizes_names_and_purposes_are_found(tmp_path: Path) -> None:
    assigned = "".join(f"        self.a{number} = 1\n" for number in range(16))
    found = package(
        tmp_path,
        {
            "comm/__init__.py": '"""Messages: text\nthat goes on.\n"""\n',
            "comm/a.py": f"class A:\n    def f(self):\n{assigned}" + "\n" * 450,
            "worker/__init__.py": '"""Ranks: what runs models."""\n',
            "worker/b.py": "class A: ...\n\n\ndef g():\n" + "    f()\n" * 41,
            **{f"worker/module{number}.py": "" for number in range(20)},
        },
    )
    broken = {rule: names for rule, names in house.violations(found).items() if names}
    assert broken == {
        "files": {"comm/a.py"},
        "functions": {"worker/b.py g"},
        "size": {"median function"},
        "attributes": {"comm/a.py A"},
        "repeated classes": {"A"},
        "folders": {"worker"},
        "purposes": {".", "comm"},
    }


def test_table_shows_every_figure(today: house.House) -> None:
    lines = list(house.table(today))
    assert f"modules                    {today.modules}" in lines
