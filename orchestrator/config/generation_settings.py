"""Generation settings: say how many sequences a decoder has at once, and how long they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .setting_checks import FORBID_OTHERS, check_count, check_one_of

PRECISIONS = ("fp32", "int8", "int4")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How a decoder generates; the block `generation:` of its settings.

    - `max_sequences`: sequences at once on a replica; further ones wait. Fewer, where `kv_memory`
      is smaller.
    - `context`: the most tokens of a sequence, its prompt included; by default the model's.
    - `kv_memory`: bytes for keys and values on each rank; by default a quarter of the memory that
      this host, or its control group, has.
    - `step_tokens`: new tokens in one step beside sequences that decode. A longer prompt comes in
      parts. More make prompts quicker, and the pauses of the others longer.
    - `prompt_tokens`: the same where nothing decodes.
    - `precision`: of the weights of a Hugging Face folder or a GGUF file: fp32, int8 or int4. By
      default fp32, and int4 for GGUF files whose weights take four bits or fewer.
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    max_sequences: int = 16
    context: int | None = None
    kv_memory: int | None = None
    step_tokens: int = 32
    prompt_tokens: int = 256
    precision: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for key in ("max_sequences", "step_tokens", "prompt_tokens"):
            check_count(key, getattr(self, key))
        for key in ("context", "kv_memory"):
            if getattr(self, key) is not None:
                check_count(key, getattr(self, key))
        if self.precision is not None:
            check_one_of("precision", self.precision, PRECISIONS)
