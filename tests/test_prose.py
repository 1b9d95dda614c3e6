"""Language of docstrings, messages and pages: rules by example, and every file kept to them."""

from __future__ import annotations

import pytest
from prose import (
    Text,
    broken,
    check,
    module_texts,
    page_texts,
    sentences,
    sources,
    too_long,
)

pytestmark = pytest.mark.pure


def test_the_language_is_plain() -> None:
    found = [finding for path in sources() for finding in check(path)]
    assert not found, "\n".join(map(str, found))


def rules(words: str, kind: str = "docstring") -> list[str]:
    return [rule for one in sentences(Text(1, kind, words)) for rule in broken(one)]


@pytest.mark.parametrize(
    "words",
    [
        "Whoever still waits is told.",
        "A copy that nobody reads.",
        "The rank to whom it belongs.",
        "Serve those who have the key.",
        "What is here already is not kept again.",
        "The first line. Who asks again gets a twin.",
        "`once` is by whom when one copy is asked for.",
        "It says what was got and what was expected.",
        "A batch shell is no rank.",
        "It simply returns.",
        "The end of the the stream.",
    ],
)
def test_sentences_that_break_a_rule(words: str) -> None:
    assert len(rules(words)) >= 1


@pytest.mark.parametrize(
    "words",
    [
        "Users who hold a result keep its memory.",
        "A person or program of this user who can read the file.",
        "There is no limit.",
        "It is no longer open.",
        "A socket file whose listener has died is taken over.",
        "The rank that it belongs to.",
        "See `who am i`, which prints the name.",
    ],
)
def test_sentences_that_break_none(words: str) -> None:
    assert not rules(words)


@pytest.mark.parametrize(
    ("words", "good"),
    [
        ("Rendezvous over local sockets: ranks find each other by the key of their job.", True),
        ("What a rank is: an identity.", False),
        ("How ranks meet: by sockets.", False),
        ("Ranks that meet by sockets.", False),
        ("Options: what goes before a command.", False),
    ],
)
def test_module_docstrings_name_their_noun(words: str, good: bool) -> None:
    texts = [one for one in module_texts(f'"""{words}"""') if one.kind == "module"]
    assert (not [rule for text in texts for one in sentences(text) for rule in broken(one)]) == good


def test_docstrings_comments_and_messages_of_a_module_are_read() -> None:
    source = (
        '"""Noun: text.\n\nSecond paragraph.\n"""\n# one\n# comment\nx = 1\n"""About x."""\n'
        'raise ValueError(f"{x} is not a number here")\n'
    )
    found = {(one.line, one.kind, one.words) for one in module_texts(source)}
    assert found == {
        (1, "module", "Noun: text."),
        (3, "docstring", "Second paragraph."),
        (5, "comment", "one\ncomment"),
        (8, "docstring", "About x."),
        (9, "message", "`x` is not a number here"),
    }


def test_prose_of_a_page_is_read_without_code_headings_and_links() -> None:
    page = (
        "# Who\n\nA [link](x.md) and `code`. Second\nsentence.\n\n```\nnobody\n```\n\n"
        "- An item.\n\n|a|b|\n|-|-|\n|c d|e|\n"
    )
    found = [
        (one.line, one.kind, one.words) for text in page_texts(page) for one in sentences(text)
    ]
    assert found == [
        (3, "page", "A link and `x`."),
        (3, "page", "Second\nsentence."),
        (10, "page", "An item."),
        (14, "cell", "c d"),
        (14, "cell", "e"),
    ]


def test_abbreviations_and_numbers_end_no_sentence() -> None:
    text = Text(1, "page", "Some formats, e.g. ONNX, take 0.5 s. The next one: 2.\n\nEnd.")
    assert [one.plain for one in sentences(text)] == [
        "Some formats, e.g. ONNX, take 0.5 s.",
        "The next one: 2.",
        "End.",
    ]


@pytest.mark.parametrize(("short", "long", "over"), [(9, 1, 0), (8, 2, 1), (19, 1, 0), (0, 2, 2)])
def test_a_tenth_of_the_sentences_of_a_page_may_be_long(short: int, long: int, over: int) -> None:
    words = " ".join(["A short one."] * short + ["A" + " word" * 22 + "."] * long)
    assert len(too_long(list(sentences(Text(1, "page", words))))) == over
