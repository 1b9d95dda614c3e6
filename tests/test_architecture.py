"""The pages name what exists: files everywhere, and classes on the page on the architecture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from folders import table

import rankmesh

ROOT = Path(rankmesh.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("comm", "compiler", "launch", "orchestrator", "rank_tables", "worker")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PATHS = re.compile(rf"`((?:{'|'.join(FOLDERS)}|tests|bench|docs|examples)/[\w./]*?)(?:::\w+)?`")
MAX_LINES_TO_READ = 1480

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_path_exists(page: Path) -> None:
    named = sorted(set(PATHS.findall(page.read_text())))
    assert len(named) > 50 or page.name != "architecture.md"
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_named_class_exists() -> None:
    texts = (path.read_text() for path in SOURCES)
    known = {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE)}
    known |= {"RANKMESH_COLLECTIVES", "RANKMESH_EXECUTOR"}
    drawn = "\n".join(re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL))
    names = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z]\w+|\w*))`", PAGE))
    names |= set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", drawn))
    assert len(names) > 25
    assert names - known == set()


def test_the_table_of_folders_repeats_what_each_folder_says() -> None:
    assert table() in PAGE, "run: python tests/support/folders.py"


def test_ten_files_tell_the_story() -> None:
    reading = PAGE.partition("## Reading order")[2].partition("\n## ")[0]
    files = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \|", reading, re.MULTILINE)
    assert len(files) == 10
    texts = [(ROOT / file).read_text() for file in files]
    assert sum(text.count("\n") for text in texts) <= MAX_LINES_TO_READ
