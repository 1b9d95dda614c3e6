"""Generation settings: say how many sequences a decoder has at once, and how long they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .setting_checks import FORBID_OTHERS, check_count


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
    """

    __pydantic_config__: ClassVar[Any] = FORBID_OTHERS

    max_sequences: int = 16
    context: int | None = None
    kv_memory: int | None = None
    step_tokens: int = 32
    prompt_tokens: int = 256

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for key in ("max_sequences", "step_tokens", "prompt_tokens"):
            check_count(key, getattr(self, key))
        for key in ("context", "kv_memory"):
            if getattr(self, key) is not None:
                check_count(key, getattr(self, key))
