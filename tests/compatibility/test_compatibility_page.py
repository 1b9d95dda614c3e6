"""docs/compatibility.md says what the tests here show, of every row."""

from __future__ import annotations

from compatibility import DOCUMENTS, PAGE, ROWS, page, shown


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tests/support/compatibility.py"


def test_every_row_has_a_test() -> None:
    assert sorted(ROWS) == sorted(shown()) == list(range(1, 45))


def test_nothing_is_pending() -> None:
    pending = {
        number
        for number, found in shown().items()
        if any(one.status.startswith("pending") for one in found)
    }
    assert not pending


def test_rows_name_documents() -> None:
    assert {name for row in ROWS.values() for name in row.documents.split(", ")} == {
        *DOCUMENTS,
        "all",
    }
