"""Generation: texts of a decoder, token by token, for any number of callers at once."""
