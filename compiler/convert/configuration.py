"""Configuration of a conversion: takes what has meaning from converter_lite's file of settings.

Sections and keys are those of MindSpore Lite's converter_lite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...comm.errors import UsageError
from ...comm.loggers import LOG
from .settings import shapes_of

if TYPE_CHECKING:
    from ..model_file.config import Config

_SHAPED = ("acl_build_options", "acl_option_cfg_param", "ascend_context")
"""The sections whose `input_shape` fixes shapes, in the order of their precedence."""

_QUANTISATIONS = frozenset(
    "QUANT_NONE WEIGHT_QUANT FULL_QUANT DYNAMIC_QUANT QUANT_WEIGHT QUANT_ALL QUANT_DYNAMIC".split()
)
_MOST_BITS = 16


def configured_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs that a configuration fixes; UsageError for values without a sense.

    One warning names all entries that have no effect on a conversion.
    """
    _check_quantisation(config)
    entries = [(section, key) for section, keys in config.sections.items() for key in keys]
    idle = [f"{section}.{key}" for section, key in entries if not _is_shape(section, key)]
    if idle:
        LOG.warning(
            "Settings without effect on a conversion: %s. Weights are stored as they are, and a "
            "model is prepared for its device when it is built.",
            ", ".join(sorted(idle)),
        )
    found = (config.bare(section, "input_shape") for section in _SHAPED)
    return shapes_of(next(filter(None, found), ""))


def _is_shape(section: str, key: str) -> bool:
    return section in _SHAPED and key == "input_shape"


def _check_quantisation(config: Config) -> None:
    """UsageError for a quantisation that converter_lite does not know either."""
    kind = config.bare("common_quant_param", "quant_type")
    if kind and kind.upper() not in _QUANTISATIONS:
        known = ", ".join(sorted(_QUANTISATIONS))
        raise UsageError(f"common_quant_param.quant_type={kind}: expected one of {known}.")
    bits = config.bare("common_quant_param", "bit_num")
    if bits and not (bits.isdecimal() and int(bits) <= _MOST_BITS):
        raise UsageError(
            f"common_quant_param.bit_num={bits}: expected a number from 0 to {_MOST_BITS}."
        )
