"""BLAKE2b without hashlib, which loads OpenSSL: 4 ms that every rank would wait."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # where hashlib has it from
except ImportError:  # a Python built without it
    from hashlib import blake2b

__all__ = ["blake2b"]
