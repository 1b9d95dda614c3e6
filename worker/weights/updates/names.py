"""Weight names: from the name that a user gives a weight to the weight of the plan.

The names of LoRA files (diffusers, kohya, sgm) end at the node of the network that they adapt:
MindSpore Lite's rule for `variable_weights_file` and `update_weights`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto

from ....comm.errors import InputError
from ....compiler.onnx_graph.onnx_values import subgraphs
from ...partition.plan import Plan

_ENDS = ("weight", "alpha")
_TOLD = 5
_PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Gather"})


class WeightNames:
    """The names of a plan's live weights: the parameters' own first, then the paths of the nodes
    that use them.
    """

    def __init__(self, plan: Plan, weights: Sequence[str], variable: Mapping[str, str]) -> None:
        """`variable` are names that the user listed, each with its node's path or "".

        Raises InputError for unknown ones.
        """
        self.path = plan.path
        self._weights = dict.fromkeys(weights)
        self._states = {state.value for state in plan.states}
        self.others = frozenset(self._states.union(plan.unused))
        """Parameters of the model's file that no update means: no node takes them, or the model
        assigns to them.
        """

        self.nodes: dict[str, dict[str, None]] = {}
        """The weights that a node uses, in order, by the node's path."""

        for segment in plan.segments:
            for path, name in _by_path(segment.model.graph, self._weights):
                self.nodes.setdefault(path, {})[name] = None
        self._variable = variable
        self.listed = [self.find(name) for name in variable]

    def known(self, name: str) -> bool:
        """Whether `find` finds the weight; quick, as no nearest names are looked up."""
        return name in self._weights or (
            name not in self._states and len(self.nodes.get(self._path_of(name), ())) == 1
        )

    def find(self, name: str) -> str:
        """The weight that `name` means; InputError where it means none or several, with the nearest
        names.
        """
        if name in self._weights:
            return name
        if name in self._states:
            raise InputError(
                f"'{name}' of {self.path} cannot be updated: the model itself assigns to it. Build "
                "the model anew to start from other values."
            )
        path = self._path_of(name)
        found = list(self.nodes.get(path, ()))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"'{name}' means the node {path} of {self.path}, which uses {found}: name one of "
                "them."
            )
        raise InputError(self._unknown(name, path))

    def _path_of(self, name: str) -> str:
        """The path of the node that a name stands for; "" where it can only be a parameter's."""
        if self._variable.get(name) or name.startswith("/"):
            return self._variable.get(name) or name
        return node_path(name) if name.endswith(_ENDS) else ""

    def _unknown(self, name: str, path: str) -> str:
        near = difflib.get_close_matches(name, [*self._weights, *self.nodes], 3, 0.5)
        told = [*self._weights][:_TOLD]
        if near:
            known = f"near: {', '.join(near)}"
        elif told:
            known = f"it has {', '.join(told)}{', ...' if len(self._weights) > _TOLD else ''}"
        else:
            known = "it has none (small tensors in an ONNX file are constants)"
        return (
            f"{self.path} has no weight '{name}'{f', nor a node {path} with one' if path else ''}; "
            f"{known}."
        )


def _by_path(graph: GraphProto, weights: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each product's path, and the matrix, kernel or table among its operands."""
    made = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _by_path(inner, weights)
        if node.op_type in _PRODUCTS:
            for operand in node.input[:2]:
                name = _behind(operand, made)
                if name in weights:
                    yield from ((path, name) for path in _paths(node))


def _behind(name: str, made: Mapping[str, NodeProto]) -> str:
    """The tensor that a value is a turned, cast or reshaped form of."""
    while name in made and made[name].op_type in ("Transpose", "Cast", "Reshape", "Identity"):
        name = made[name].input[0]
    return name


def _paths(node: NodeProto) -> Iterator[str]:
    for label in (node.name, *node.doc_string.split("\n")):
        path = scope_path(label)
        if path != "/":  # of nodes outside any layer, which no name stands for
            yield path


_PREFIXES = re.compile(r"^(lora_unet_|lora_te[12]?_|text_encoder(_2)?\.|unet\.)")
_LORA = re.compile(
    r"(\.processor)?[._](lora(_linear_layer)?|lora_[AB]|lora_down|lora_up)(?=\.|$)|\.processor(?=\.)"
)
_UP_DOWN = re.compile(r"\.(up|down)(?=\.weight$|\.alpha$)")
_COMPOUND = (
    "down blocks",
    "up blocks",
    "mid block",
    "input blocks",
    "middle block",
    "output blocks",
    "transformer blocks",
    "to q",
    "to k",
    "to v",
    "to out",
    "proj in",
    "proj out",
    "self attn",
    "q proj",
    "k proj",
    "v proj",
    "out proj",
    "text model",
    "time emb proj",
    "conv in",
    "conv out",
    "conv shortcut",
)
_LAYERS = 3  # of a block in sgm's count, where diffusers counts two and the sampler


def node_path(name: str) -> str:
    """The path: `encoder.layers.0.fc1.weight` gives `/encoder/layers.0/fc1`."""
    bare, _, kind = name.rpartition(".")
    prefix = _PREFIXES.match(bare)
    bare = bare[prefix.end() :] if prefix else bare
    bare = _UP_DOWN.sub("", f"{bare}.{kind}").removesuffix(f".{kind}")
    bare = _LORA.sub("", f"{bare}.").rstrip(".")
    if prefix and prefix[0].endswith("_"):
        bare = _dotted(bare)
    return "/" + "/".join(
        f"{part}.0" if part == "to_out" else part for part in _glued(_diffusers(bare).split("."))
    )


def scope_path(scope: str) -> str:
    """The path of a node in a MindIR file, from its scope: `Default/fc1-Dense/MatMul-op0` gives
    `/fc1`.

    A file that was converted from ONNX has such paths already, with the operator at their end:
    `/fc1/MatMul`.
    """
    parts = [part for part in scope.split("/")[:-1] if part and part != "Default"]
    return "/" + "/".join(_glued(re.sub(r"-[A-Z]\w*$", "", part) for part in parts))


def _glued(parts: Iterable[str]) -> list[str]:
    """The parts, numbers behind what they number: `layers`, `0` gives `layers.0`."""
    found: list[str] = []
    for part in parts:
        if part.isdecimal() and found:
            found[-1] += f".{part}"
        else:
            found.append(part)
    return found


def _dotted(name: str) -> str:
    """A name of kohya's, where every dot became an underscore, with its dots."""
    spaced = name.replace("_", " ")
    for compound in _COMPOUND:
        spaced = re.sub(rf"\b{compound}\b", compound.replace(" ", "_"), spaced)
    return spaced.replace(" ", ".")


def _diffusers(name: str) -> str:
    """A name with sgm's blocks as diffusers counts them."""
    name = re.sub(r"^middle_block\.1\b", "mid_block.attentions.0", name)
    name = re.sub(r"^middle_block\.([02])\b", lambda m: f"mid_block.resnets.{int(m[1]) // 2}", name)
    name = re.sub(
        r"^input_blocks\.(\d+)\.([01])\b", lambda m: _block("down", int(m[1]) - 1, m[2]), name
    )
    return re.sub(r"^output_blocks\.(\d+)\.([01])\b", lambda m: _block("up", int(m[1]), m[2]), name)


def _block(side: str, index: int, kind: str) -> str:
    layer = "attentions" if kind == "1" else "resnets"
    return f"{side}_blocks.{index // _LAYERS}.{layer}.{index % _LAYERS}"
