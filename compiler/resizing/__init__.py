"""Resizing: tells whether a model can have other input shapes than it was exported for."""
