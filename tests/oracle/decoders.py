"""Decoders of random weights, a family each, with the tokens that transformers generates.

Run it in an environment of its own, and compare before you replace what is kept:

    pip install torch==2.13.0 transformers==5.24.0 onnxruntime-genai==0.18.0 onnxruntime==1.32.0
    python -P tests/oracle/decoders.py tests/data/decoders [NAME...]

Each folder is one of onnxruntime-genai without a tokenizer. `references.json` has, for each
decoder, prompts and the tokens that transformers takes greedily in fp32. Weights are drawn until
at each step the best logit leads by `LEAST_LEAD` of the largest: rounding then changes no token.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

LEAST_LEAD = 1e-3
VOCABULARY = 128
NEW_TOKENS = 24
PROMPT_LENGTHS = (1, 2, 5, 19)
SEEDS = range(500)

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "tie_word_embeddings": False,
    "use_cache": True,
}
LLAMA_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "llama_rope_scaled": ("Llama", {"rope_parameters": LLAMA_ROPE}),
    "llama_one_kv_head": ("Llama", {"num_key_value_heads": 1}),
    "llama_nine_heads": (
        "Llama",
        {"hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3},
    ),
    "qwen3": ("Qwen3", {}),
    "mistral": ("Mistral", {"sliding_window": 8}),
    "phi3": (
        "Phi3",
        {"num_attention_heads": 2, "original_max_position_embeddings": 128},
    ),
    "gemma": ("Gemma", {"tie_word_embeddings": True}),
    "gemma2": (
        "Gemma2",
        {
            "tie_word_embeddings": True,
            "sliding_window": 8,
            "attn_logit_softcapping": 4.0,
            "final_logit_softcapping": 30.0,
            "query_pre_attn_scalar": 16,
        },
    ),
    "gpt_oss": (
        "GptOss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
}


def main(target: Path, names: list[str]) -> None:
    """Make the decoders of these names, or all, and note their tokens."""
    notes = target / "references.json"
    references = json.loads(notes.read_text()) if notes.exists() else {}
    for name in names or FAMILIES:
        try:
            references[name] = made(name, target / name)
        except Exception as error:  # of any class: the others are made
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        notes.write_text(lines(references))
        print(name, sum(one.stat().st_size for one in (target / name).iterdir()) >> 10, "KiB")


def lines(references: dict[str, Any]) -> str:
    """JSON with a line for each prompt."""
    blocks = [
        f"{json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, found)) + "\n]"
        for name, found in sorted(references.items())
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def made(name: str, folder: Path) -> list[dict[str, list[int]]]:
    """Write the folder of one decoder; its prompts and tokens."""
    kind, settings = FAMILIES[name]
    config = getattr(transformers, f"{kind}Config")(**{**COMMON, **settings})
    model, found = drawn(config)
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        model.save_pretrained(whole)
        transformers.PreTrainedTokenizerFast(tokenizer_object=words()).save_pretrained(whole)
        build(whole, Path(scratch) / "built")
        keep(Path(scratch) / "built", folder)
    return found


def drawn(config: Any) -> tuple[Any, list[dict[str, list[int]]]]:
    """A model whose best logits lead, and its tokens."""
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        spread(model)
        found = [generated(model, prompt(length)) for length in PROMPT_LENGTHS]
        if all(found):
            return model, [one for one in found if one]
    raise RuntimeError("no seed has a model whose best logits lead")


def spread(model: Any) -> None:
    """Draw norms, biases and sinks too, which a new model has at 1 or 0. Gemma's embeddings are
    large, and its layers would hardly matter beside them.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
            if "post_feedforward" in name:
                parameter.add_(4)


def prompt(length: int) -> list[int]:
    """Tokens spread over the vocabulary."""
    return [2 + (37 * at + 11 * length) % (VOCABULARY - 2) for at in range(length)]


def generated(model: Any, tokens: list[int]) -> dict[str, list[int]] | None:
    """The tokens behind a prompt; None where a lead is too small or all are the same."""
    found = list(tokens)
    for _ in range(NEW_TOKENS):
        with torch.no_grad():
            logits = model(torch.tensor([found]), use_cache=False).logits[0, -1]
        best, second = logits.topk(2).values.tolist()
        if best - second < LEAST_LEAD * logits.abs().max().item():
            return None
        found.append(int(logits.argmax()))
    new = found[len(tokens) :]
    return {"prompt": tokens, "tokens": new} if len(set(new)) > 3 else None


def words() -> Tokenizer:
    """A tokenizer, as the builder asks for one."""
    return Tokenizer(WordLevel({f"t{token}": token for token in range(VOCABULARY)}, "t0"))


def build(whole: Path, built: Path) -> None:
    """Run onnxruntime-genai's model builder."""
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    options = ["-i", str(whole), "-o", str(built), "-p", "fp32", "-e", "cpu"]
    cache = ["-c", str(built.parent / "cache"), "--extra_options", "hf_token=false"]
    done = subprocess.run(builder + options + cache, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-800:])


def keep(built: Path, folder: Path) -> None:
    """Keep the model and its configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("model.onnx", "model.onnx.data", "genai_config.json"):
        shutil.copy(built / name, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
