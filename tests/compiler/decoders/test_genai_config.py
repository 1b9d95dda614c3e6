"""What a decoder's configuration says, and what is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.decoders.genai_config import read_genai_config

pytestmark = pytest.mark.pure

DATA = Path(__file__).parents[2] / "data" / "decoders"


def written(folder: Path, changes: dict[str, Any]) -> str:
    """A configuration with changes, by dotted names."""
    config = json.loads((DATA / "llama" / "genai_config.json").read_text())
    for place, value in changes.items():
        *path, last = place.split(".")
        inner = config
        for one in path:
            inner = inner[one]
        inner[last] = value
    (folder / "genai_config.json").write_text(json.dumps(config))
    return str(folder / "genai_config.json")


def test_sizes_and_names(tmp_path: Path) -> None:
    config = read_genai_config(written(tmp_path, {"model.eos_token_id": [1, 2]}))
    decoder = config.model.decoder
    assert (decoder.num_hidden_layers, decoder.num_key_value_heads, decoder.head_size) == (2, 2, 16)
    assert decoder.inputs.past_key_names % 1 == "past_key_values.1.key"
    assert (config.model.context_length, config.model.vocab_size) == (512, 512)
    assert config.end_tokens == (1, 2)
    assert read_genai_config(written(tmp_path, {})).end_tokens == (1,)
    assert read_genai_config(written(tmp_path, {"model.eos_token_id": None})).end_tokens == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model.vision": {"filename": "v.onnx"}}, "has a part 'vision', expected a decoder"),
        ({"model.decoder.filename": "../a.onnx"}, "expected the name of a file beside it"),
        ({"model.decoder.head_size": 0}, "model.decoder.head_size is 0, expected 1 or more"),
        ({"model.context_length": "long"}, "not a genai_config.json of a decoder"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        read_genai_config(written(tmp_path, changes))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_a_sentence(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "genai_config.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="genai_config.json"):
        read_genai_config(str(path))
