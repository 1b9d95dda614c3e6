from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankmesh import Context, RunnerConfig

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"context": 1}, TypeError, "context must be Context, but got"),
        ({"workers_num": "1"}, TypeError, "workers_num must be int, but got"),
        ({"workers_num": -1}, ValueError, "workers_num must be a non-negative int"),
        ({"config_info": 1}, TypeError, "config_info must be dict"),
        ({"config_info": {1: {}}}, TypeError, "config_info_key must be str"),
        ({"config_info": {"a": 1}}, TypeError, "config_info_value must be dict"),
        ({"config_info": {"a": {1: "b"}}}, TypeError, "config_info_value_key must be str"),
        ({"config_info": {"a": {"b": 1}}}, TypeError, "config_info_value_value must be str"),
        ({"config_path": 1}, TypeError, "config_path must be str"),
        ({"config_path": "missing.ini"}, ValueError, "config_path does not exist"),
        ({"config_path": "missing.ini"}, RuntimeError, "config_path does not exist"),
        (
            {"context": 1, "workers_num": "1", "config_info": 1, "config_path": 1},
            TypeError,
            "context must be",
        ),
        (
            {"workers_num": "1", "config_info": 1, "config_path": 1},
            TypeError,
            "workers_num must be",
        ),
        ({"config_info": 1, "config_path": 1}, TypeError, "config_info must be"),
    ],
)
def test_arguments_are_checked_in_order(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        RunnerConfig(**arguments)
    assert text in str(caught.value)


def test_text() -> None:
    assert str(RunnerConfig()) == (
        "workers num: 0,\nconfig info: ,\ncontext: thread num: 0, bind mode: 0,\nconfig path: ."
    )


def test_text_of_all_arguments(tmp_path: Path) -> None:
    path = tmp_path / "c.ini"
    path.write_text("")
    config = RunnerConfig(
        Context(thread_num=2, thread_affinity_mode=1),
        4,
        {"weight": {"weight_path": "w"}},
        str(path),
    )
    assert str(config) == (
        "workers num: 4,\nconfig info: weight: weight_path w\n,\ncontext: thread num: 2, "
        f"bind mode: 1,\nconfig path: {path}."
    )
