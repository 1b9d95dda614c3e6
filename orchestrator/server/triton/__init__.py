"""Triton's model repositories: their folders and config.pbtxt as settings of models."""
