"""Step graph: rewrites a decoder for steps, in which each sequence has as many new tokens as it
has.

A decoder as it is exported takes `[batch, sequence]` tokens, padded, and gives all keys and values
back. Its step graph takes the new tokens of all sequences one behind the other, `[1, tokens]`, so
that products of matrices compute no padding. Around each GroupQueryAttention the rows are gathered
into `[sequences, rows, ...]` and back. The attention writes keys and values in place: input and
output are bound to one buffer, in which each sequence has a slot. Only the wanted rows get logits.

**Queries of two rows.** onnxruntime's attention takes another path for a query of one row, which
rounds differently. So a sequence with one new token gets its previous row beside the new one. The
row's queries, keys and values are kept from step to step (`kept.N`), and the products of matrices
see the new rows only. Then a token's logits have the same bits in any batch and after any chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ...comm.errors import ModelError
from ..onnx_graph.onnx_values import subgraphs
from ..onnx_graph.state_notes import note_states
from .genai_config import GenaiConfig

TOKENS = "tokens"
"""int64 [1, tokens]: the new tokens, sequence after sequence."""

POSITIONS = "positions"
"""int64 [1, tokens]: their places in their sequences, where the decoder asks for them."""

ROWS = "attention_rows"
"""int64 [sequences, rows]: the rows of each query, out of the kept rows and then the new ones."""

PLACES = "token_places"
"""int64 [tokens]: the place of each new token among all rows of all queries."""

KEPT_ROWS = "kept_rows"
"""int64 [sequences]: the row that is kept of each sequence, numbered as in `attention_rows`."""

WANTED = "wanted_tokens"
"""int64 [wanted]: the new tokens whose logits are wanted."""

LAST = "last_positions"
"""int32 [sequences]: the place of the last row of each query in its sequence."""

QUERY_LENGTHS = "query_lengths"
"""int32 [sequences]: the rows of each query that count; the others are padding."""

CAPACITY = "capacity"
"""int32 [1]: the most tokens of a sequence."""

LOGITS = "logits"
"""float [1, wanted, vocabulary]."""

Shape: TypeAlias = list[int | str]

_ATTENTION = "GroupQueryAttention"
_QUERY_SEQLENS = 16
"""The input of GroupQueryAttention that has the lengths of queries, since onnxruntime 1.32."""

_WINDOW = "local_window_size"
_OTHER_ATTENTION = ("Attention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention")
_PRODUCTS = ("MatMul", "Gemm", "MatMulNBits")


def key_name(layer: int, present: bool = False) -> str:
    """The input of a layer's keys, `[sequences, heads, capacity, head size]`; or its output."""
    return f"{'next_' * present}key.{layer}"


def value_name(layer: int, present: bool = False) -> str:
    """The input of a layer's values, likewise."""
    return f"{'next_' * present}value.{layer}"


def kept_name(layer: int, part: int, present: bool = False) -> str:
    """The input of the kept rows of a layer, `[sequences, width]`, or its output. Part 0 has the
    queries, or all where a decoder packs them together; 1 the keys, 2 the values.
    """
    return f"{'next_' * present}kept.{layer}.{part}"


def step_graph(model: ModelProto, config: GenaiConfig, path: str) -> ModelProto:
    """The step graph of a decoder. ModelError, naming the node, where it cannot be rewritten.

    Weights stay where they are. Changes the model.
    """
    return _Rewriting(model, config, path).model()


class _Rewriting:
    def __init__(self, model: ModelProto, config: GenaiConfig, path: str) -> None:
        self._model = model
        self._graph = model.graph
        self._config = config
        self._decoder = config.model.decoder
        self._path = path
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._given = {info.name: info for info in model.graph.input}
        self._floats: int = TensorProto.FLOAT

    def model(self) -> ModelProto:
        """Rewrite the graph."""
        graph = self._graph
        self._declare_common()
        nodes = [*self._nodes()]
        self._add_head(nodes)
        del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
        graph.node.extend(_used(nodes, {info.name for info in self._outputs}))
        self._declare_used()
        graph.output.extend(self._outputs)
        self._drop_weights()
        self._note_states()
        return self._model

    def _declare_common(self) -> None:
        self._input(ROWS, TensorProto.INT64, ["sequences", "rows"])
        self._input(PLACES, TensorProto.INT64, ["tokens"])
        self._input(KEPT_ROWS, TensorProto.INT64, ["sequences"])
        self._input(WANTED, TensorProto.INT64, ["wanted"])
        self._input(LAST, TensorProto.INT32, ["sequences"])
        self._input(QUERY_LENGTHS, TensorProto.INT32, ["sequences"])
        self._input(CAPACITY, TensorProto.INT32, [1])

    def _nodes(self) -> Iterator[NodeProto]:
        """The nodes in order, with each attention and what belongs to it in its place."""
        names = self._decoder.inputs
        renamed = {names.input_ids: TOKENS, names.position_ids: POSITIONS}
        layers = 0
        for node in self._graph.node:
            if any(subgraphs(node)):
                raise self._refusal(node, "has branches or a body")
            for at, name in enumerate(node.input):
                node.input[at] = renamed.get(name, name)
            if node.op_type == _ATTENTION:
                yield from self._attention(node)
                layers += 1
            elif node.op_type in _OTHER_ATTENTION:
                raise self._refusal(node, "keeps its keys and values in another way")
            else:
                yield node
        if layers != self._decoder.num_hidden_layers:
            raise ModelError(
                f"{self._path}: found {layers} nodes {_ATTENTION}, expected one for each of its "
                f"{self._decoder.num_hidden_layers} layers. Export the decoder with "
                "onnxruntime-genai's model builder."
            )

    def _attention(self, node: NodeProto) -> Iterator[NodeProto]:
        layer = self._layer_of(node)
        self._floats = self._given[node.input[3]].type.tensor_type.elem_type
        yield from self._query_rows(node, layer)
        self._cache(node, layer)
        inputs = [*node.input, *[""] * (_QUERY_SEQLENS + 1 - len(node.input))]
        inputs[5:7] = [LAST, CAPACITY]
        inputs[_QUERY_SEQLENS] = QUERY_LENGTHS
        del node.input[:]
        node.input.extend(inputs)
        self._set_window(node, self._decoder.window(layer))
        result = node.output[0]
        node.output[0] = f"{result}/rows"
        yield node
        width = self._decoder.num_attention_heads * self._decoder.head_size
        yield from self._token_rows(node.output[0], result, width)

    def _set_window(self, node: NodeProto, window: int) -> None:
        """Let an attention see as many tokens as the configuration says: the builder leaves it to
        the program that runs the decoder, for some families.
        """
        if window < 1:
            return
        kept = [one for one in node.attribute if one.name != _WINDOW]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(_WINDOW, window)])

    def _layer_of(self, node: NodeProto) -> int:
        """The layer of an attention, by its cache; ModelError for attentions that differ."""
        names, layers = self._decoder.inputs, range(self._decoder.num_hidden_layers)
        found = [one for one in layers if names.past_key_names % one == node.input[3]]
        if len(found) != 1 or names.past_value_names % found[0] != node.input[4]:
            raise self._refusal(node, f"takes '{node.input[3]}', which is no cache of keys")
        for at, what in ((9, "positions"), (10, "a bias"), (12, "quantised caches")):
            if len(node.input) > at and node.input[at]:
                raise self._refusal(node, f"takes {what}")
        return found[0]

    def _query_rows(self, node: NodeProto, layer: int) -> Iterator[NodeProto]:
        """Gather the rows of each query from the kept rows and the new ones, and keep the last."""
        decoder = self._decoder
        whole, keys = (
            heads * decoder.head_size
            for heads in (decoder.num_attention_heads, decoder.num_key_value_heads)
        )
        widths = (whole, keys, keys) if node.input[1] else (whole + 2 * keys,)
        for part, width in enumerate(widths):
            value = node.input[part]
            kept, found = kept_name(layer, part), f"{node.output[0]}/{part}"
            self._input(kept, self._floats, ["sequences", width])
            self._output(kept_name(layer, part, True), self._floats, ["sequences", width])
            yield _node("Squeeze", [value, self._constant("first_axis", [0])], f"{found}/flat")
            yield _node("Concat", [kept, f"{found}/flat"], f"{found}/all", axis=0)
            yield _node("Gather", [f"{found}/all", KEPT_ROWS], kept_name(layer, part, True), axis=0)
            yield _node("Gather", [f"{found}/all", ROWS], f"{found}/rows", axis=0)
            node.input[part] = f"{found}/rows"

    def _cache(self, node: NodeProto, layer: int) -> None:
        """Name the caches of an attention, which is to write them in place."""
        heads, size = self._decoder.num_key_value_heads, self._decoder.head_size
        shape: Shape = ["sequences", heads, "capacity", size]
        for at, name in enumerate((key_name, value_name)):
            node.input[3 + at], node.output[1 + at] = name(layer), name(layer, True)
            self._input(name(layer), self._floats, shape)
            self._output(name(layer, True), self._floats, shape)

    def _token_rows(self, rows: str, result: str, width: int) -> Iterator[NodeProto]:
        """Take the rows of new tokens out of the rows of all queries."""
        shape = self._constant("attention_shape", [-1, width])
        yield _node("Reshape", [rows, shape], f"{rows}/flat")
        yield _node("Gather", [f"{rows}/flat", PLACES], f"{rows}/tokens", axis=0)
        axis = self._constant("first_axis", [0])
        yield _node("Unsqueeze", [f"{rows}/tokens", axis], result)

    def _add_head(self, nodes: list[NodeProto]) -> None:
        """Have the wanted rows alone reach the product that makes logits."""
        makers = {name: node for node in nodes for name in node.output}
        name = self._decoder.outputs.logits
        node = makers.get(name)
        while node is not None and node.op_type not in _PRODUCTS:
            node = makers.get(node.input[0])
        if node is None:
            raise ModelError(f"{self._path}: no product of matrices makes the output '{name}'.")
        gather = _node("Gather", [node.input[0], WANTED], f"{node.input[0]}/wanted", axis=1)
        nodes.insert(nodes.index(node), gather)
        node.input[0] = gather.output[0]
        logits = makers[name]
        logits.output[[*logits.output].index(name)] = LOGITS
        kind = next(info for info in self._graph.output if info.name == name).type.tensor_type
        self._output(LOGITS, kind.elem_type, [1, "wanted", self._config.model.vocab_size])

    def _declare_used(self) -> None:
        """Declare the inputs; ModelError where a node still takes another one."""
        used = {name for node in self._graph.node for name in node.input}
        if POSITIONS in used:
            self._input(POSITIONS, TensorProto.INT64, [1, "tokens"])
        self._inputs.insert(
            0, helper.make_tensor_value_info(TOKENS, TensorProto.INT64, [1, "tokens"])
        )
        for node in self._graph.node:
            for name in node.input:
                if name in self._given:
                    raise self._refusal(node, f"takes the input '{name}'")
        self._graph.input.extend(self._inputs)

    def _note_states(self) -> None:
        """Note what stays on a rank: keys, values and kept rows from step to step, and logits."""
        names = [info.name for info in self._outputs]
        states = {name: name.removeprefix("next_") if name != LOGITS else "" for name in names}
        note_states(self._model, states)

    def _drop_weights(self) -> None:
        used = {name for node in self._graph.node for name in node.input}
        kept = [one for one in self._graph.initializer if one.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)

    def _constant(self, name: str, numbers: list[int]) -> str:
        """An initializer of a few numbers, made once."""
        if all(one.name != name for one in self._graph.initializer):
            size = [len(numbers)]
            tensor = helper.make_tensor(name, TensorProto.INT64, size, numbers)
            self._graph.initializer.append(tensor)
        return name

    def _input(self, name: str, kind: int, shape: Shape) -> None:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def _output(self, name: str, kind: int, shape: Shape) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def _refusal(self, node: NodeProto, reason: str) -> ModelError:
        return ModelError(
            f"{self._path}: node '{node.name}' ({node.op_type}) {reason}: such a decoder cannot "
            "generate here. Export it with onnxruntime-genai's model builder for CPUs."
        )


def _node(operator: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs, [output], output, **attributes)


def _used(nodes: list[NodeProto], wanted: set[str]) -> list[NodeProto]:
    """The nodes that outputs need, in order."""
    found = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.append(node)
            wanted.update(node.input)
    return found[::-1]
