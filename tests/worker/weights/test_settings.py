"""What configurations ask for the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.weights.settings import WeightSettings, with_flat_keys

pytestmark = pytest.mark.pure


def of(**entries: str) -> WeightSettings:
    return WeightSettings.of(Config({"ascend_context": entries}))


def test_nothing_is_asked_for() -> None:
    assert WeightSettings.of(Config()) == WeightSettings()
    assert not WeightSettings().live
    assert not of(provider="ge", variable_weights_mode="delta").live


@pytest.mark.parametrize(
    ("text", "pids"),
    [("0, 123, 124", (0, 123, 124)), ("'4711'", (4711,)), ("", ()), ('"1,2,"', (1, 2))],
)
def test_lists_of_processes(text: str, pids: tuple[int, ...]) -> None:
    assert of(shareable_weight_pid_list=text).pids == pids
    assert of(shareable_weight_pid_list=text).live


@pytest.mark.parametrize("text", ["1 2", "a", "-1", "1;2", str(2**22 + 1)])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="shareable_weight_pid_list: got "):
        of(shareable_weight_pid_list=text)


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "", str(2**63)])
def test_handles_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="shareable_weight_mem_handle is "):
        of(shareable_weight_mem_handle=text)


def test_forced_modes() -> None:
    assert of(weights_mode="'live'").live
    for mode in ("packed", "private"):
        assert of(weights_mode=mode).mode == mode
        assert not of(weights_mode=mode).live
        for entry in ({"shareable_weight_pid_list": "1"}, {"shareable_weight_mem_handle": "5"}):
            with pytest.raises(
                UsageError, match=f"weights_mode is '{mode}', and .* need live weights"
            ):
                of(weights_mode=mode, **entry)
    with pytest.raises(
        UsageError, match="weights_mode is 'fast', expected live, packed or private"
    ):
        of(weights_mode="fast")


def test_a_handle() -> None:
    assert of(shareable_weight_mem_handle=str(2**63 - 1)).handle == 2**63 - 1


def test_both_keys() -> None:
    with pytest.raises(UsageError, match="are both set"):
        of(shareable_weight_mem_handle="5", shareable_weight_pid_list="6")


def test_the_names_file_is_found_beside_the_ini(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("fc1.weight\n")
    (tmp_path / "config.ini").write_text('[ascend_context]\nvariable_weights_file="names.txt"\n')
    settings = WeightSettings.of(Config.read(str(tmp_path / "config.ini")))
    assert settings.names == {"fc1.weight": ""}
    assert settings.live


def test_names_may_be_listed_in_the_configuration_itself(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("fc1.weight\n")
    both = of(
        variable_weights_list='"/fc2, fc3.weight,"',
        variable_weights_file=str(tmp_path / "names.txt"),
    )
    assert both.names == {"fc1.weight": "", "/fc2": "", "fc3.weight": ""}
    assert of(variable_weights_list="/fc2").live and not of(variable_weights_list="").live


def test_a_names_file_that_is_missing() -> None:
    with pytest.raises(UsageError, match="variable weight name list is not exists"):
        of(variable_weights_file="nowhere.txt")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"pids": "1, 2"}, {"ascend_context": {"shareable_weight_pid_list": "1, 2"}}),
        ({"shared_mem_handle": 7}, {"ascend_context": {"shareable_weight_mem_handle": "7"}}),
        (
            {"ascend_context": {"shareable_weight_mem_handle": 7}},
            {"ascend_context": {"shareable_weight_mem_handle": "7"}},
        ),
        (
            {"ascend_context": {"a": "b"}, "pids": "1"},
            {"ascend_context": {"a": "b", "shareable_weight_pid_list": "1"}},
        ),
        ({"ascend_context": {"a": 1}}, {"ascend_context": {"a": 1}}),
        ({"pids": {"a": "b"}}, {"pids": {"a": "b"}}),
        ({"shared_mem_handle": True}, {"ascend_context": {"shareable_weight_mem_handle": True}}),
        (["pids"], ["pids"]),
        (None, None),
    ],
)
def test_flat_keys(given: Any, wanted: Any) -> None:
    assert with_flat_keys(given) == wanted


def test_the_callers_dict_is_left_alone() -> None:
    given = {"ascend_context": {"shareable_weight_mem_handle": 7}, "pids": "1"}
    with_flat_keys(given)
    assert given == {"ascend_context": {"shareable_weight_mem_handle": 7}, "pids": "1"}
