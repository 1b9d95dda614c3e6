"""The model cache: what building a model made, kept on disk for the next process that builds the same."""
