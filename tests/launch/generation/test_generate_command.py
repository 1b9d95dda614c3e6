"""`rankmesh generate`: texts on the terminal, as JSON, and of a file of prompts."""

from __future__ import annotations

import json
from pathlib import Path

from processes import rankmesh

DATA = Path(__file__).parents[2] / "data" / "decoders"


def test_prompts_of_a_file_as_json(tmp_path: Path) -> None:
    references = json.loads((DATA / "llama.json").read_text())
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps(one["prompt"]) for one in references) + '\n"Once"\n')
    ran = rankmesh(
        "generate",
        DATA / "llama",
        "--prompts",
        prompts,
        "--json",
        "--max-tokens",
        48,
        "--ignore-eos",
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["tokens"] for one in found[:-1]] == [one["tokens"] for one in references]
    assert found[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 48}


def test_a_prompt_and_a_chat() -> None:
    ran = rankmesh("generate", DATA / "llama", "Once upon a time", "--max-tokens", 8)
    assert ran.returncode == 0, ran.stderr
    chat = rankmesh("generate", DATA / "llama", "Once upon a time", "--max-tokens", 8, "--chat")
    assert chat.returncode == 0, chat.stderr
    assert ran.stdout.endswith("\n")
    assert ran.stdout != chat.stdout


def test_refusals(tmp_path: Path) -> None:
    none = rankmesh("generate", DATA / "llama")
    assert (none.returncode, "expected one of PROMPT and --prompts" in none.stderr) == (2, True)
    bad = tmp_path / "prompts.jsonl"
    bad.write_text('"fine"\n{"a": 1}\n')
    ran = rankmesh("generate", DATA / "llama", "--prompts", bad)
    assert ran.returncode == 2
    assert "line 2" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_commands_that_have_no_use_of_a_decoder() -> None:
    """Each names the one that has."""
    for command in ("run", "serve"):
        ran = rankmesh(command, DATA / "llama")
        assert ran.returncode == 2
        assert "`rankmesh generate`" in ran.stderr
        assert "Traceback" not in ran.stderr
