"""Settings of converter_lite's configuration files: shapes, those without effect, and nonsense."""

from __future__ import annotations

import logging

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.convert.configuration import configured_shapes
from rankmesh.compiler.model_file.config import Config

pytestmark = pytest.mark.pure


def config(section: str, **entries: str) -> Config:
    return Config().updated({section: entries})


@pytest.mark.parametrize("section", ["acl_build_options", "acl_option_cfg_param", "ascend_context"])
def test_shapes(section: str, caplog: pytest.LogCaptureFixture) -> None:
    assert configured_shapes(config(section, input_shape="x:1,4;t:1")) == {"x": (1, 4), "t": (1,)}
    assert not caplog.records


def test_settings_without_effect_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    both = config("common_quant_param", quant_type="WEIGHT_QUANT", bit_num="8")
    both = both.updated({"data_preprocess_param": {"calibrate_size": "100"}})
    with caplog.at_level(logging.WARNING):
        assert configured_shapes(both) == {}
    (record,) = caplog.records
    names = "bit_num, common_quant_param.quant_type, data_preprocess_param.calibrate_size."
    assert names in record.getMessage()


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("common_quant_param", "quant_type", "MOST", "expected one of DYNAMIC_QUANT"),
        ("common_quant_param", "bit_num", "eight", "expected a number from 0 to 16"),
        ("ascend_context", "input_shape", "1,2,3", "expected NAME:SIZE"),
    ],
)
def test_nonsense_is_refused(section: str, key: str, value: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        configured_shapes(config(section, **{key: value}))
