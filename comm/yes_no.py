"""Words for yes and no: what users write where a folder may be switched off."""

from __future__ import annotations

_WORDS = {"off": False, "no": False, "false": False, "0": False, "on": True, "yes": True, "true": True, "1": True}


def yes_or_no(text: str) -> bool | None:
    """What a word says; None of all other texts."""
    return _WORDS.get(text.lower())
