"""The one exception of this folder: what is wrong with a rank table, and where in it."""

from __future__ import annotations


class RankTableFault(ValueError):
    """A rank table is unreadable or contradicts itself; `path` is the JSON path of the culprit."""

    def __init__(self, text: str, path: str = "", source: str = "") -> None:
        super().__init__(": ".join(part for part in (source, path, text) if part))
        self.text = text
        self.path = path
        self.source = source

    def in_source(self, source: str) -> RankTableFault:
        """The same fault, with the file's name in front."""
        return RankTableFault(self.text, self.path, source)
