"""The ModelParallelRunner's workers: their threads, queue and programs."""
