"""What is built: folders and configurations that are no decoders of text are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.decoders.model_builder import decoder_files

pytestmark = pytest.mark.pure


def folder(path: Path, config: object, *names: str) -> str:
    (path / "config.json").write_text(json.dumps(config))
    for name in names:
        (path / name).write_bytes(b"")
    return str(path)


def test_the_files_that_count(tmp_path: Path) -> None:
    own = folder(tmp_path, {}, "model.safetensors", "tokenizer.json", "README.md")
    assert sorted(decoder_files(own)) == ["", "config.json", "model.safetensors", "tokenizer.json"]


@pytest.mark.parametrize("part", ["vision_config", "audio_config"])
def test_images_and_sound(part: str, tmp_path: Path) -> None:
    own = folder(tmp_path, {part: {}}, "model.safetensors")
    with pytest.raises(ModelError, match=f"'{part}', expected a decoder of text alone"):
        decoder_files(own)


def test_adapters(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="a LoRA adapter, which is not supported"):
        decoder_files(str(tmp_path))


def test_pickles(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no .safetensors file.*pickles are not read"):
        decoder_files(folder(tmp_path, {}, "pytorch_model.bin"))


@pytest.mark.parametrize("text", ["{", "[]"])
def test_other_configurations(text: str, tmp_path: Path) -> None:
    own = folder(tmp_path, {}, "model.safetensors")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config.json: (cannot be read|is no JSON object)"):
        decoder_files(own)
