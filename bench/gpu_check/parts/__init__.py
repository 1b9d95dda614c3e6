"""Parts of the GPU check: each measures one thing, in a process of its own."""
