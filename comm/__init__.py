"""The only meeting place of orchestrator and worker: errors, rank identity, messages, collectives."""

from . import loggers as loggers  # their handler and filters are there before anything logs
