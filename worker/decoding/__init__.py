"""Decoding: a rank's steps of many sequences, whose keys and values stay in memory of their own."""
