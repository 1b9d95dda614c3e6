"""Memory of one process for listed others: a broker hands out its files, by a whitelist."""
