"""Inspection of model files: inputs, outputs, plans and weights, as data and as text."""
