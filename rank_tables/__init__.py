"""Who runs where: rank tables, parsed and checked (knows nothing of the rest of the package)."""
