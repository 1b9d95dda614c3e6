"""Schema of .ms files: MindSpore's own text (Apache License 2.0), and its parser."""
