"""Tokenizer of a GGUF file: `tokenizer.json` and its settings, from the notes in the file.

A file names how text is split before its merges apply (`tokenizer.ggml.pre`), and llama.cpp knows
the rules of each name: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...comm.errors import ModelError
from .gguf_file import GgufFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens: those that no text has, and those that a text has as a whole."""

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = "gpt-2"
_DIGITS = "digits"
_SPLITS: Mapping[str, str] = {
    "gpt-2": _GPT2,
    "olmo": _GPT2,
    "phi-2": _GPT2,
    "mpt": _GPT2,
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "llama-bpe": _WORDS + r"\p{N}{1,3}" + _REST,
    "llama3": _WORDS + r"\p{N}{1,3}" + _REST,
    "llama-v3": _WORDS + r"\p{N}{1,3}" + _REST,
    "smaug-bpe": _WORDS + r"\p{N}{1,3}" + _REST,
    "dbrx": _WORDS + r"\p{N}{1,3}" + _REST,
    "qwen2": _WORDS + r"\p{N}" + _REST,
    "deepseek-r1-qwen": _WORDS + r"\p{N}" + _REST,
}
"""By the name in a file, how text is split: GPT-2's way, the same with digits apart, or an
expression.
"""

_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3")
"""Splits whose words that are tokens need no merges."""


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """The tokenizer of a file. Raises ModelError for kinds that are not known."""
    kind = file.note("tokenizer.ggml.model", str)
    tokens = [str(one) for one in file.note("tokenizer.ggml.tokens", list)]
    if kind == "gpt2":
        found = _byte_pairs(file, tokens)
    elif kind == "llama":
        found = _sentence_pieces(file, tokens)
    else:
        raise ModelError(
            f"{file.path}: its tokenizer is of the kind '{kind}', expected gpt2 or llama. Generate "
            "from a Hugging Face folder of the model."
        )
    _add_special(found, file, tokens)
    _add_ends(found, file, tokens, kind == "llama")
    return found


def tokenizer_settings(file: GgufFile) -> dict[str, Any]:
    """The settings beside it: the texts of special tokens, and the chat template."""
    tokens = file.note("tokenizer.ggml.tokens", list)
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name in ("bos", "eos", "unknown", "padding"):
        token = file.find(f"tokenizer.ggml.{name}_token_id")
        if token is not None and token < len(tokens):
            short = {"unknown": "unk", "padding": "pad"}.get(name, name)
            settings[f"{short}_token"] = tokens[token]
    template = file.find("tokenizer.chat_template")
    if template is not None:
        settings["chat_template"] = template
    return settings


def _byte_pairs(file: GgufFile, tokens: list[str]) -> Tokenizer:
    """A tokenizer of GPT-2's kind: pieces are written as bytes, which merge in order."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    name = file.find("tokenizer.ggml.pre")
    if name not in _SPLITS:
        raise ModelError(
            f"{file.path}: its tokenizer splits text as '{name}', expected one of "
            f"{', '.join(sorted(_SPLITS))}. Generate from a Hugging Face folder of the model."
        )
    merges = [tuple(one.split(" ", 1)) for one in file.note("tokenizer.ggml.merges", list)]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    whole = name in _WHOLE_WORDS
    found = Tokenizer(models.BPE(vocabulary, merges, fuse_unk=False, ignore_merges=whole))
    found.pre_tokenizer = pre_tokenizers.Sequence(_splitters(_SPLITS[name]))
    found.decoder = decoders.ByteLevel()
    if "qwen" in name:
        found.normalizer = normalizers.NFC()
    return found


def _splitters(split: str) -> list[Any]:
    """The parts that split a text into words, and turn these into bytes."""
    from tokenizers import Regex, pre_tokenizers

    if split in (_GPT2, _DIGITS):
        own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        return [pre_tokenizers.Digits(individual_digits=True), own][split == _GPT2 :]
    words = pre_tokenizers.Split(Regex(split), behavior="isolated")
    return [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def _sentence_pieces(file: GgufFile, tokens: list[str]) -> Tokenizer:
    """A tokenizer of SentencePiece's kind: pieces merge by the score of what they become."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = file.note("tokenizer.ggml.scores", list)
    vocabulary = {token: at for at, token in enumerate(tokens)}
    unknown = file.find("tokenizer.ggml.unknown_token_id")
    found = Tokenizer(
        models.BPE(
            vocabulary,
            _merges(vocabulary, scores),
            unk_token=tokens[0 if unknown is None else unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefixed = file.find("tokenizer.ggml.add_space_prefix") is not False
    spaces = normalizers.Replace(" ", "▁")
    prefix = [normalizers.Prepend("▁")] if prefixed else []
    found.normalizer = normalizers.Sequence([*prefix, spaces])
    strip = [decoders.Strip(" ", 1, 0)] if prefixed else []
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    found.decoder = decoders.Sequence([*parts, *strip])
    return found


def _merges(vocabulary: Mapping[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """All merges of two pieces into a third one, those of higher scores first."""
    found = []
    for piece, at in vocabulary.items():
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        pairs = [one for one in halves if one[0] in vocabulary and one[1] in vocabulary]
        pairs.sort(key=lambda one: (vocabulary[one[0]], vocabulary[one[1]]))
        found += [(scores[at], one) for one in pairs]
    found.sort(key=lambda one: -one[0])
    return [pair for _, pair in found]


def _add_special(found: Tokenizer, file: GgufFile, tokens: list[str]) -> None:
    """Let tokens that are not pieces of words be taken whole."""
    from tokenizers import AddedToken

    kinds = file.note("tokenizer.ggml.token_type", list)
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (_CONTROL, _USER_DEFINED):
            special = kind == _CONTROL
            found.add_tokens([AddedToken(token, special=special, normalized=False)])


def _add_ends(found: Tokenizer, file: GgufFile, tokens: list[str], usual: bool) -> None:
    """Put the tokens around a text that the file says; `usual`: that a text begins with one."""
    from tokenizers.processors import TemplateProcessing

    said = file.find("tokenizer.ggml.add_bos_token")
    begin = file.find("tokenizer.ggml.bos_token_id") if usual and said is None or said else None
    end = file.find("tokenizer.ggml.eos_token_id")
    end = end if file.find("tokenizer.ggml.add_eos_token") else None
    ends = {tokens[one]: one for one in (begin, end) if one is not None}
    if ends:
        parts = [*([tokens[begin]] if begin is not None else []), "$A"]
        parts += [tokens[end]] if end is not None else []
        found.post_processor = TemplateProcessing(single=parts, special_tokens=[*ends.items()])
