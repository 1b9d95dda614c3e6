"""Prose linter: rules of language for docstrings, comments, messages and pages of documentation.

    python tests/support/prose.py [PATH ...]    print each finding; by default of all files

A finding has a file, a line, a rule and the sentence.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from import_graph import ROOT, read
from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_WORDS = 22
"""At most so many words have nine of ten sentences of a page."""

QUESTION = "what who whose whom which whoever where how whether when why"
PEOPLE = (
    "user reader person people operator author attacker developer newcomer maintainer contributor "
    "administrator engineer"
)
READERS = {"anyone", "everyone", "someone", "no one"}
"""Pronouns that pages may have, where they mean people; the package has processes only."""
EXCEPTIONS: set[str] = set()
"""Whole sentences that break a rule with good reason, white space as one space."""

_WHO = re.compile(r"\b(who|whom|whoever|whomever)\b|^whose\b|\b(of|for|to|know) whose\b", re.I)
_PERSON = re.compile(rf"\b({'|'.join(PEOPLE.split())})s?\b[^.;:]{{0,40}}?$", re.I)
_INDEFINITE = re.compile(r"\b((?:no|some|any|every)(?:body|one)|no one)\b", re.I)
_RIDDLE = re.compile(r"^(What|Who|Whose|Whom|Whoever|Whatever|Nobody|Somebody)\b(?!.*\?$)", re.S)
_RIDDLE_INSIDE = re.compile(
    r"\bis by whom\b|\bwhat is (where|there|what)\b|\bwhat\b[^.;:]*\bwhat\b|\bwho\b[^.;:]*\bwho\b",
    re.I | re.S,
)
_FILLER = re.compile(
    r"\b(simply|really|very|quite|actually|basically|obviously|clearly|of course|in order to|"
    r"please note|needless to say|as it were|so to speak|as you know|in fact|indeed|"
    r"after all|at the end of the day|sort of)\b",
    re.I,
)
_IS_NO = re.compile(
    r"(?<!there )\b(is|are|was|were|be) no\b"
    r"(?! (longer|more|less|fewer|later|earlier|larger|other))",
    re.I,
)
_TWICE = re.compile(r"\b([a-z]+)\s+\1\b(?<!that that)(?<!had had)")
_SENTENCE_END = re.compile(r"""(?<=[.!?])["')\]]*\s+(?=["'(\[`*]*[A-Z0-9`])""")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|approx|Fig|resp)\.$")
_CODE = "`x`"
_ITEM = re.compile(r"\s*([-*]|\d+\.)\s")


class Text(NamedTuple):
    """A piece of prose: the line of its file on which it starts, its kind and its words."""

    line: int
    kind: str
    words: str


class Sentence(NamedTuple):
    """One sentence, with the line on which it starts and the kind of text that it is from."""

    line: int
    kind: str
    words: str

    @property
    def plain(self) -> str:
        """The words with one space between them."""
        return " ".join(self.words.split())

    @property
    def length(self) -> int:
        """How many words it has; a piece of code is one."""
        return sum(any(map(str.isalnum, word)) for word in self.words.split())


class Finding(NamedTuple):
    """A sentence that breaks a rule."""

    path: str
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.sentence}"


def sources(root: Path = ROOT) -> list[Path]:
    """Everything that is checked: modules of the package and pages, relative to the root."""
    modules = [one.path for one in read(root) if not one.generated]
    pages = [Path("README.md"), Path("CONTRIBUTING.md")]
    return [
        *modules,
        *pages,
        *(page.relative_to(root) for page in sorted((root / "docs").rglob("*.md"))),
    ]


def check(path: Path, root: Path = ROOT) -> Iterator[Finding]:
    """The findings in one file."""
    text = (root / path).read_text()
    texts = list(page_texts(text) if path.suffix == ".md" else module_texts(text))
    found = [one for text in texts for one in sentences(text)]
    for sentence in found:
        if sentence.plain not in EXCEPTIONS:
            for rule in broken(sentence):
                yield Finding(str(path), sentence.line, rule, sentence.plain)
    for sentence in too_long(found):
        yield Finding(str(path), sentence.line, f"{sentence.length} words", sentence.plain)


def module_texts(source: str) -> Iterator[Text]:
    """Docstrings, comments and messages of a module."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docstrings, inside = set[int](), set[int]()
    for node in nodes:
        if isinstance(node, ast.Expr) and _is_text(node.value):
            docstrings.add(id(node.value))
            kind = "module" if tree.body[0] is node else "docstring"
            yield from _paragraphs(node.lineno, kind, inspect.cleandoc(node.value.value))
        elif isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node)}
            yield Text(node.lineno, "message", "".join(_spoken(part) for part in node.values))
    for node in nodes:
        if _is_text(node) and not {id(node)} & (docstrings | inside) and node.value.count(" ") > 2:
            yield Text(node.lineno, "message", node.value)
    if "#" in source:  # to look for comments takes as long as all else
        yield from _comments(source)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _spoken(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) else _CODE


def _paragraphs(line: int, kind: str, docstring: str) -> Iterator[Text]:
    """Paragraphs and items of lists; indented blocks are code. Only the first is of the module."""
    words: list[str] = []
    start = line
    for number, row in enumerate([*docstring.split("\n"), ""], line):
        ends = not row.strip() or row.startswith("    ") or _ITEM.match(row)
        if ends and words:
            yield Text(start, kind, "\n".join(words))
            words, kind = [], "docstring"
        if row.strip() and not row.startswith("    "):
            start = start if words else number
            words.append(_ITEM.sub("", row, count=1) if _ITEM.match(row) else row)


def _comments(source: str) -> Iterator[Text]:
    """Comments, those on lines that follow each other as one."""
    row, words = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if words and token.start[0] != row + 1:
                yield Text(row - len(words) + 1, "comment", "\n".join(words))
                words = []
            row = token.start[0]
            words.append(token.string.lstrip("#! "))
    if words:
        yield Text(row - len(words) + 1, "comment", "\n".join(words))


def page_texts(source: str) -> Iterator[Text]:
    """Paragraphs, items of lists and cells of tables of a page; headings and code are left out."""
    kind = "page"
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type in ("heading_open", "th_open", "td_open"):
            kind = {"td_open": "cell"}.get(token.type, "heading")
        elif token.type in ("heading_close", "th_close", "td_close"):
            kind = "page"
        elif token.type == "inline" and token.map and kind != "heading":
            yield Text(token.map[0] + 1, kind, "".join(map(_shown, token.children or ())))


def _shown(token: Token) -> str:
    """A part of a paragraph as a reader sees it; code is one word."""
    return {"code_inline": _CODE, "softbreak": "\n", "hardbreak": "\n", "image": ""}.get(
        token.type, token.content if token.type == "text" else ""
    )


def sentences(text: Text) -> Iterator[Sentence]:
    """The sentences of a text; code in backquotes is one word."""
    words = re.sub(r"``?[^`]+``?", lambda code: _CODE + "\n" * code[0].count("\n"), text.words)
    start = line = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(words)), len(words)]:
        part = words[start:end]
        if not _ABBREVIATION.search(part.rstrip()):
            if part.strip():
                yield Sentence(text.line + line, text.kind, part.strip())
            line += part.count("\n")
            start = end


def broken(sentence: Sentence) -> Iterator[str]:
    """The rules that a sentence breaks by itself."""
    words = sentence.words
    if sentence.kind == "module" and sentence.line <= 1:
        yield from _module_rules(words)
    if any(not _PERSON.search(words[: found.start()]) for found in _WHO.finditer(words)):
        yield "who is of people"
    allowed = READERS if sentence.kind in ("page", "cell") else set()
    if {found[0].lower() for found in _INDEFINITE.finditer(words)} - allowed:
        yield "somebody is of people"
    if sentence.kind != "cell" and (_RIDDLE.search(words) or _RIDDLE_INSIDE.search(words)):
        yield "riddle"
    if _FILLER.search(words):
        yield "filler"
    if sentence.kind != "message" and _IS_NO.search(words):
        yield "is no: say is not"
    if _TWICE.search(words):
        yield "a word twice"


def _module_rules(words: str) -> Iterator[str]:
    head, colon, tail = words.partition(": ")
    if head.split()[0].lower() in QUESTION.split():
        yield "a module docstring opens with its noun"
    elif not colon and ":\n" not in words:
        yield "a module docstring is `Noun phrase: what it does.`"
    elif tail.split()[0].lower() in QUESTION.split():
        yield "a module docstring says what the module does, after its noun"


def too_long(found: list[Sentence]) -> list[Sentence]:
    """The longest sentences of a page, as many as are too many to be a tenth."""
    page = [one for one in found if one.kind == "page"]
    long = sorted((one for one in page if one.length > MAX_WORDS), key=lambda one: -one.length)
    return long[: max(0, len(long) - len(page) // 10)]


def main(arguments: list[str]) -> int:
    """Print the findings, and how many each folder and page has."""
    named = [Path(one).resolve().relative_to(ROOT) for one in arguments]
    paths = [one for one in sources() if not named or any(map(one.is_relative_to, named))]
    found = [one for path in paths for one in check(path)]
    print("\n".join(map(str, sorted(found))))
    by_folder = Counter(
        one.path if one.path.endswith(".md") else str(Path(one.path).parent) for one in found
    )
    print("\n".join(f"{count:7}  {name}" for name, count in by_folder.most_common()))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
