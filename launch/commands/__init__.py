"""Commands of `rankmesh`: one module for each, with its options."""
