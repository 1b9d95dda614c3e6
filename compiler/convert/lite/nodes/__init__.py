"""Nodes of .ms files that are made: their tensors, and the order of channels."""
