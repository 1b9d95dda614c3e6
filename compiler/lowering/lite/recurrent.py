"""Recurrent layers in .ms files: ONNX's LSTM and GRU with its order of gates, or MindIR's LSTM."""

from __future__ import annotations

from ..builder import Builder, OnnxTensor, Value, known, lowers
from .results import as_mindir, kept


@lowers("Lite.LSTM")
def lstm(
    b: Builder,
    x: Value,
    *rest: Value,
    bidirectional: bool,
    has_bias: bool,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    zoneout_cell: float,
    zoneout_hidden: float,
    proj_size: int,
) -> Value:
    """(outputs, last h, last c). With four inputs (x, h, c, weights) it is MindIR's; with six
    (x, w, r, biases, h, c) ONNX's, whose outputs are [time, directions, batch, hidden].
    """
    if zoneout_cell or zoneout_hidden or len(rest) == 6:
        raise ValueError("an LSTM with zoneout or a projection is not supported")
    if len(rest) == 3:
        return as_mindir(
            b,
            "LSTM",
            x,
            *rest,
            bidirectional=bidirectional,
            has_bias=has_bias,
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=max(num_layers, 1),
            proj_size=proj_size,
        )
    return _onnx_lstm(b, b.tensor(x), *(b.tensor(one) for one in rest), bidirectional=bidirectional)


def _onnx_lstm(
    b: Builder, x: OnnxTensor, w: OnnxTensor, r: OnnxTensor, *rest: OnnxTensor, bidirectional: bool
) -> Value:
    biases, *states = rest
    h, c = (_state(b, one) for one in states)
    results = b.ops(
        "LSTM",
        *(x, w, r, biases, None, h, c),
        outputs=3,
        hidden_size=known(r, 2),
        direction=_direction(bidirectional),
    )
    return kept(b, (*results, None, None))


@lowers("Lite.GRU")
def gru(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    biases: Value,
    h: Value,
    lengths: Value = None,
    *,
    bidirectional: bool,
) -> Value:
    """(outputs [time, directions, batch, hidden], last h): ONNX's GRU."""
    weights = b.tensor(r)
    results = b.ops(
        "GRU",
        b.tensor(x),
        *(b.tensor(w), weights, b.tensor(biases), lengths, _state(b, b.tensor(h))),
        outputs=2,
        hidden_size=known(weights, 2),
        direction=_direction(bidirectional),
    )
    return kept(b, results)


def _direction(bidirectional: bool) -> str:
    return "bidirectional" if bidirectional else "forward"


def _state(b: Builder, state: OnnxTensor) -> OnnxTensor:
    """[directions, batch, hidden] of a state, which may be [batch, hidden]."""
    two = state.shape is not None and len(state.shape) == 2
    return b.op("Unsqueeze", state, (0,)) if two else state
