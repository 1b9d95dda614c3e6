"""The page of .ms files: it tells of each primitive whether it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rankmesh.compiler.lite.equal_primitives import primitive_name
from rankmesh.compiler.lite.schema.lite_schema import lite_schema
from rankmesh.compiler.lowering.builder.registry import is_supported

pytestmark = pytest.mark.pure
PAGE = (Path(__file__).parents[3] / "docs" / "ms-files.md").read_text()
OF_GRAPHS = {"Assert", "Call", "PartialFusion", "Switch", "SwitchLayer"}


def test_the_page_has_every_primitive_of_the_schema() -> None:
    runs, refused = PAGE.split("## Primitives")[1].split("These are refused")
    names = set(lite_schema().unions["PrimitiveType"][1:])
    run = {name for name in names if is_supported(primitive_name(name))} | OF_GRAPHS
    assert set(re.findall(r"`(\w+)`", runs)) == run | {"Assert"}
    assert set(re.findall(r"`(\w+)`", refused)) & names == names - run
