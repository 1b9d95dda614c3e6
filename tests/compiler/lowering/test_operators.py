"""docs/operators.md says what the registry and the recorded networks say; what must run does."""

from __future__ import annotations

from operators import PAGE, coverage, page, required

from rankmesh.compiler.lowering.builder.registry import supported
from rankmesh.compiler.lowering.unsupported import HANDLED, replacement_of

RUN = {*supported(), *HANDLED}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tests/support/operators.py"


def test_every_primitive_of_the_networks_runs() -> None:
    networks = {
        name
        for name, (_, tests) in coverage().items()
        if any(t.startswith("mindir/") for t in tests)
    }
    assert networks <= RUN
    assert set(required()[:232]) <= RUN


def test_what_runs_needs_no_replacement() -> None:
    assert not [name for name in RUN if replacement_of(name)]
