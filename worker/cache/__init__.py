"""Model cache: builds of models, kept on disk for later processes that build the same."""
