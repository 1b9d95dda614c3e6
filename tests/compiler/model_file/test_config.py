"""The grammar of .ini files and the dicts laid over them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.compiler.model_file.config import Config

pytestmark = pytest.mark.pure


def read(folder: Path, text: str) -> Config:
    path = folder / "config_file.ini"
    path.write_text(text)
    return Config.read(str(path))


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("[a]\nkey=value\n", {"a": {"key": "value"}}),
        ("  [a]  \n  key  =  value  \n", {"a": {"key": "value"}}),
        ("[a]\nkey=v=w # no comment\n", {"a": {"key": "v=w # no comment"}}),
        ('[a]\nkey="quoted.txt"\n', {"a": {"key": '"quoted.txt"'}}),
        ("# comment\n[a]\n#key=1\nkey=2\n", {"a": {"key": "2"}}),
        ("early=1\n[a]\nkey=2\n", {"a": {"key": "2"}}),
        ("[a]\nno equals sign\nkey=2\n", {"a": {"key": "2"}}),
        ("[a]\nkey=1\nkey=2\n", {"a": {"key": "1"}}),
        ("[a]\nkey=1\n[a]\nkey=2\nother=3\n", {"a": {"key": "1"}}),
        ("[a]\n[a]\nkey=2\n", {"a": {"key": "2"}}),
        ("[empty]\n[a]\nkey=2\n", {"a": {"key": "2"}}),
        ("[a]\nk=\nkey=\n", {"a": {"key": ""}}),
        ("[a]\ninput_Shape=1\n[A]\nkey=1\n", {"a": {"input_Shape": "1"}, "A": {"key": "1"}}),
        ("\ufeff[a]\r\nkey=1\r\n", {"a": {"key": "1"}}),
        ("", {}),
    ],
)
def test_grammar(tmp_path: Path, text: str, sections: dict):
    assert read(tmp_path, text).sections == sections


@given(st.text(max_size=200))
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, text: str):
    path = tmp_path_factory.getbasetemp() / "any.ini"
    path.write_text(text, encoding="utf-8")
    assert all(entries for entries in Config.read(str(path)).sections.values())


def test_many_sections_take_little_time(tmp_path: Path):
    """Of 300 kB, which took half a minute when each section's lines were counted off from the
    start.
    """
    began = time.process_time()
    assert read(tmp_path, "[a]\n" * 75_000 + "k=v\n").sections == {"a": {"k": "v"}}
    assert time.process_time() - began < 5


def test_bytes_are_limited(tmp_path: Path):
    with pytest.raises(ValueError, match="longer than 16 MiB"):
        read(tmp_path, "[a]\n" + "\n" * (16 << 20))


def test_lines_are_limited(tmp_path: Path):
    read(tmp_path, "[a]\n" + "key=1\n" * 99_999)
    with pytest.raises(ValueError, match=r"100001 lines, more than 100000"):
        read(tmp_path, "[a]\n" + "key=1\n" * 100_000)


def test_what_is_no_text_is_refused(tmp_path: Path):
    path = tmp_path / "a.ini"
    path.write_bytes(b"[a]\nkey=\xff\xfe\n")
    with pytest.raises(ValueError, match="cannot be read as text"):
        Config.read(str(path))


def test_a_dict_overrides_key_by_key(tmp_path: Path):
    config = read(tmp_path, "[a]\nx=1\ny=2\n[b]\nz=3\n")
    assert config.updated({"a": {"y": "5"}, "c": {"w": "6"}}).sections == {
        "a": {"x": "1", "y": "5"},
        "b": {"z": "3"},
        "c": {"w": "6"},
    }
    assert config.get("a", "y") == "2"


def test_dicts_are_limited():
    Config().updated({str(i): {} for i in range(100)})
    with pytest.raises(ValueError, match="101 sections, expected at most 100"):
        Config().updated({str(i): {} for i in range(101)})
    with pytest.raises(ValueError, match="1001 keys, expected at most 1000"):
        Config().updated({"a": {str(i): "" for i in range(1001)}})


def test_typed_access(tmp_path: Path):
    (tmp_path / "table.json").write_text("{}")
    config = read(
        tmp_path,
        '[ascend_context]\nrank_table_file="table.json"\nprovider=ge\n'
        "[gpu_context]\ninput_shape=x:[-1,3]\ndynamic_dims=[1~4]\n",
    )
    assert config.rank_table_file == str(tmp_path / "table.json")
    assert (config.input_shape, config.dynamic_dims) == ("x:[-1,3]", "[1~4]")
    assert config.get("ascend_context", "provider") == "ge"
    assert (config.get("no", "such"), config.get("no", "such", "default")) == ("", "default")
    assert Config().rank_table_file == ""


def test_a_file_is_looked_for_in_the_working_directory_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = read(tmp_path, "[ascend_context]\nrank_table_file=table.json\n")
    assert config.rank_table_file == "table.json"
    here = tmp_path / "here"
    here.mkdir()
    for folder in (here, tmp_path):
        (folder / "table.json").write_text("{}")
    monkeypatch.chdir(here)
    assert config.rank_table_file == "table.json"
