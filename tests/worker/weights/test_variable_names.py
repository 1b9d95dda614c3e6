"""The list of weights that updates may replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.worker.weights.settings import read_variable_names

pytestmark = pytest.mark.pure


def test_one_and_two_columns(tmp_path: Path) -> None:
    (tmp_path / "names").write_text(
        "fc1.weight\n\n  lora.alpha \n bias , /fc1/BiasAdd\r\n", encoding="utf-8"
    )
    assert read_variable_names(str(tmp_path / "names")) == {
        "fc1.weight": "",
        "lora.alpha": "",
        "bias": "/fc1/BiasAdd",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "fc1.weight\na,b,c\n",
            "line 2: only support 1 or 2 row name list, got 3 columns: 'a,b,c'",
        ),
        (
            "fc1.bias\n",
            r"line 1: variable is not norm name, now only support \*\*weight, got 'fc1.bias'",
        ),
        ("\n \n", "names no weight"),
        ("\xff", "variable weight name list is not exists"),
    ],
)
def test_what_is_no_list(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "names").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=said):
        read_variable_names(str(tmp_path / "names"))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="variable weight name list is not exists. .*/none cannot be read"
    ):
        read_variable_names(str(tmp_path / "none"))
