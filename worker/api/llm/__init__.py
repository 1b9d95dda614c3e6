"""LLM engine of the API: its types, checks and errors; only Ascend hardware runs one."""
