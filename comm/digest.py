"""BLAKE2b digests without hashlib: hashlib loads OpenSSL, which takes every rank 4 ms."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b  # hashlib takes it from there
except ImportError:  # a Python built without it
    from hashlib import blake2b as blake2b
