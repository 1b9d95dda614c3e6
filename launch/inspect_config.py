"""`rankmesh inspect --config`: which keys of a configuration act, which do nothing here, and which nobody knows."""

from __future__ import annotations

import json

from ..comm.config_keys import Effect, key_effect
from ..comm.visible import show
from .config_file import read_config


def inspect_config(path: str, as_json: bool) -> None:
    """Print what each key of the .ini file does; UsageError where the file cannot be read."""
    config = read_config(path)
    described = [{"section": section, "key": key, "value": value, "effect": found.effect.value, "note": found.note}
                 for section, entries in config.sections.items() for key, value in entries.items()
                 for found in [key_effect(section, key)]]
    if as_json:
        print(json.dumps({"file": path, "keys": described}, indent=1))
        return
    for effect in Effect:
        group = [one for one in described if one["effect"] == effect.value]
        if group:
            show(f"{effect.value}:")
        for one in group:
            show(f"  [{one['section']}] {one['key']} = {one['value']}  ({one['note']})")
    if not described:
        show(f"{path}: holds no section with a key")
