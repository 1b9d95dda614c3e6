"""Memory of one process handed to listed others: files without names, a whitelist, and the broker between them."""
