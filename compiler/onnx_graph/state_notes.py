"""State notes: tell in a model's file which outputs stay on their rank from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from onnx import ModelProto, helper

from ...comm.decoding import guarded
from ...comm.errors import ModelError

_KEY = "rankmesh.states"
_decode = guarded(msgspec.json.Decoder(dict[str, str]))


def note_states(model: ModelProto, states: Mapping[str, str]) -> None:
    """Note the states of a model: by the name of an output, the input to which it is given at the
    next run, "" for none.
    """
    helper.set_model_props(model, {_KEY: msgspec.json.encode(states).decode()})


def read_states(notes: Mapping[str, str]) -> Mapping[str, str]:
    """The states of a model, by the notes in its file. Raises ModelError."""
    found = notes.get(_KEY)
    if found is None:
        return {}
    try:
        return _decode(found.encode())
    except msgspec.DecodeError as error:
        raise ModelError(f"the note '{_KEY}' of the model cannot be read: {error}.") from error
