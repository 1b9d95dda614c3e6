"""GGUF files: the Hugging Face folder that one was made of comes back, weights and tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf", reason="needs the package gguf")
from safetensors.numpy import load_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from rankmesh.comm.errors import ModelError  # noqa: E402
from rankmesh.compiler.decoders.gguf_file import GgufFile  # noqa: E402
from rankmesh.compiler.decoders.gguf_folder import write_folder  # noqa: E402

pytestmark = pytest.mark.pure

BYTES = ["a", "b", "c", "Ġ", "1", "2"]
TOKENS = ["<s>", "</s>", *BYTES, "ab", "Ġab", "<|turn|>"]
TYPES = [3, 3, *[1] * 8, 3]
HEADS, KV_HEADS, SIZE, HIDDEN, INNER = 2, 1, 4, 8, 12


def weights(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Those of one layer, by their names in a folder."""
    random = np.random.default_rng(seed)
    shapes = {
        "model.embed_tokens": (len(TOKENS), HIDDEN),
        "model.norm": (HIDDEN,),
        "model.layers.0.input_layernorm": (HIDDEN,),
        "model.layers.0.self_attn.q_proj": (HEADS * SIZE, HIDDEN),
        "model.layers.0.self_attn.k_proj": (KV_HEADS * SIZE, HIDDEN),
        "model.layers.0.self_attn.v_proj": (KV_HEADS * SIZE, HIDDEN),
        "model.layers.0.self_attn.o_proj": (HIDDEN, HEADS * SIZE),
        "model.layers.0.post_attention_layernorm": (HIDDEN,),
        "model.layers.0.mlp.gate_proj": (INNER, HIDDEN),
        "model.layers.0.mlp.up_proj": (INNER, HIDDEN),
        "model.layers.0.mlp.down_proj": (HIDDEN, INNER),
    }
    return {
        f"{name}.weight": random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def permuted(numbers: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows as llama.cpp's converter orders them."""
    rows = numbers.reshape(heads, 2, numbers.shape[0] // heads // 2, -1)
    return rows.swapaxes(1, 2).reshape(numbers.shape)


def write(path: Path, pre: str = "gpt-2", **extra: np.ndarray[Any, Any]) -> str:
    """A file as llama.cpp's converter writes it."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types(TYPES)
    writer.add_token_merges(["a b", "Ġ ab"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(len(TOKENS) - 1)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{{ messages[0].content }}")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    heads = {"q_proj": HEADS, "k_proj": KV_HEADS}
    for name, numbers in weights().items():
        part = name.split(".")[-2]
        own = permuted(numbers, heads[part]) if part in heads else numbers
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), own)
    for name, numbers in extra.items():
        writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "folder"
    target.mkdir()
    write_folder(GgufFile(write(tmp_path / "m.gguf")), str(target))
    return target


def test_weights_come_back(folder: Path) -> None:
    found, expected = load_file(folder / "model.safetensors"), weights()
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        np.testing.assert_array_equal(found[name], numbers, err_msg=name)


def test_the_configuration(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] is True
    assert (config["num_key_value_heads"], config["head_dim"]) == (KV_HEADS, SIZE)
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 5000.0}
    ends = json.loads((folder / "generation_config.json").read_text())
    assert ends["eos_token_id"] == [1, len(TOKENS) - 1]


def test_the_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = tokenizer.encode("ab ab<|turn|>c12")
    assert found.tokens == ["<s>", "ab", "Ġab", "<|turn|>", "c", "1", "2"]
    assert tokenizer.decode(found.ids) == "ab abc12"
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert settings["chat_template"] == "{{ messages[0].content }}"
    assert settings["eos_token"] == "</s>"


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="splits text as 'odd', expected one of"):
        write_folder(GgufFile(write(tmp_path / "m.gguf", "odd")), str(tmp_path))


def test_an_unknown_weight_is_refused(tmp_path: Path) -> None:
    more = {"blk.0.ffn_gate_exps.weight": np.zeros((2, 2), np.float32)}
    with pytest.raises(ModelError, match=r"has a weight 'blk.0.ffn_gate_exps.weight'"):
        write_folder(GgufFile(write(tmp_path / "m.gguf", **more)), str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + bytes(40), b"other"])
def test_other_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"m.gguf: "):
        GgufFile(str(tmp_path / "m.gguf"))
