"""Shared ground of orchestrator, ranks and launchers: errors, jobs, messages, collectives."""

from . import loggers as loggers  # adds their handler and filters before any record
