"""Decoders: language models that keep keys and values, as graphs of one step for many sequences."""
