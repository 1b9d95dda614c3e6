"""The precision that a user asks for: a mode for the whole model and types for single nodes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx import NodeProto

from .element_types import FLOAT, HALF

if TYPE_CHECKING:
    from ..comm.config import Config
    from ..comm.context import Context

_LOG = logging.getLogger("rankmesh")
_PLAN = "execution_plan"
_FASTEST = -1  # float16 on a device that computes in it, float32 on a CPU
# Element types that a mode converts to, None: as the file says. The modes of a Context, then GE's own names for them.
_MODES: dict[str, int | None] = {
    "enforce_fp32": FLOAT, "preferred_fp32": None, "preferred_fp16": HALF,
    "enforce_fp16": HALF, "enforce_origin": None, "preferred_optimal": _FASTEST,
    "force_fp32": FLOAT, "force_fp16": HALF, "allow_fp32_to_fp16": None,
    "must_keep_origin_dtype": None, "cube_fp16in_fp32out": None,
    "allow_mix_precision": _FASTEST, "allow_mix_precision_fp16": _FASTEST,
}
_GE_SECTIONS = ("ge_global_options", "ge_session_options", "ge_graph_options", "acl_init_options", "acl_build_options")
_NODE_TYPES = {"float32": FLOAT, "float16": HALF}
_NUMBERED = re.compile(r"_\d+$")


@dataclass(slots=True)
class Precision:
    """`mode` is the ONNX element type to compute in, None for what the file says; `nodes` those of single nodes.

    A key of `nodes` is a node's name as the model file has it (`Default/fc1-Dense/MatMul-op0`), where `*` stands
    for any text. A node's own type counts more than the mode.
    """

    mode: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    _patterns: list[tuple[str, re.Pattern[str]]] = field(init=False, repr=False)
    _found: set[str] = field(init=False, repr=False, default_factory=set)
    _seen: set[str] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        self._patterns = [(name, re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL))
                          for name in self.nodes if "*" in name]

    @classmethod
    def asked(cls, context: Context, config: Config, device: str) -> Precision:
        """What `context` and `config` say for a model that runs on `device`."""
        return cls(_mode(context, config, device), _node_types(config))

    @classmethod
    def usual(cls, device: str) -> Precision:
        """What a model on `device` gets if nobody asks for anything."""
        return cls(_default(device))

    def node_type(self, node: NodeProto) -> int | None:
        """The element type that the user gave this very node, if any."""
        if not self.nodes:
            return None
        names = list(_names(node))
        self._seen.update(names)
        for name in names:
            if name in self.nodes:
                self._found.add(name)
                return self.nodes[name]
        for text, pattern in self._patterns:
            if any(map(pattern.fullmatch, names)):
                self._found.add(text)
                return self.nodes[text]
        return None

    def warn_of_unknown(self, path: str) -> None:
        """Log the names that no node had; for when every node of the model at `path` was asked for.

        Nothing is logged where no node was, as for a model that was prepared before.
        """
        import difflib

        for name in self.nodes.keys() - self._found if self._seen else ():
            near = difflib.get_close_matches(name, self._seen, 1)
            _LOG.warning("[%s] %s: no node of %s has this name, it is ignored%s.", _PLAN, name, path,
                         f"; the nearest is {near[0]}" if near else "")


def _mode(context: Context, config: Config, device: str) -> int | None:
    """The mode for the target that the model runs as: `device`, or the first target where `device` replaces it."""
    targets = [target.lower() for target in context.target]
    target = device if device in targets else targets[0]
    for source, text in _mode_texts(context, config, target):
        if text in _MODES:
            mode = _MODES[text]
            return mode if mode != _FASTEST else _default(device) or HALF
        if text:
            _LOG.warning("%s is %s, which is ignored: expected one of %s.", source, text, ", ".join(_MODES))
    return _default(device)


def _mode_texts(context: Context, config: Config, target: str) -> Iterator[tuple[str, str]]:
    """Where a mode may be written, and what is written there, in the order in which they count."""
    section = f"{target}_context"
    yield f"[{section}] precision_mode", config.bare(section, "precision_mode")
    if target == "ascend":
        for options in _GE_SECTIONS:
            yield f"[{options}] ge.exec.precision_mode", config.bare(options, "ge.exec.precision_mode")
    own = getattr(context, target)
    if type(own).precision_mode.given(own):
        yield f"{target}.precision_mode", own.precision_mode


def _default(device: str) -> int | None:
    """float32 on a CPU, which has few float16 kernels: no slower there, and closer. Elsewhere the file's types."""
    return FLOAT if device == "cpu" else None


def _node_types(config: Config) -> dict[str, int]:
    """The section [execution_plan]; what is no `data_type:float32|float16` is ignored with a warning."""
    types = {}
    for name, text in config.sections.get(_PLAN, {}).items():
        key, _, value = text.strip("\"' ").partition(":")
        if key.strip() == "data_type" and value.strip() in _NODE_TYPES:
            types[name] = _NODE_TYPES[value.strip()]
        else:
            _LOG.warning("[%s] %s = %s is ignored: expected data_type:float16 or data_type:float32.", _PLAN, name, text)
    return types


def _names(node: NodeProto) -> Iterable[str]:
    """What a user may call an ONNX node: its name, that without our numbering, and the nodes merged into it."""
    name = node.name
    yield name
    while _NUMBERED.search(name):
        name = _NUMBERED.sub("", name)
        yield name
    yield from filter(None, node.doc_string.split("\n"))
