"""Executors: prepare segments of a plan for a device, and run them."""
