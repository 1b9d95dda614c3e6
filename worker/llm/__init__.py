"""The LLM engine's API: its types, checks and errors. Running one needs Ascend hardware."""
