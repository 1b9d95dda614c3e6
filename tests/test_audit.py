"""What `.ci/audit.py` makes of what pip-audit answers: behind a mirror, without a network, with
findings.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / ".ci" / "audit.py"
CLEAN = {"name": "numpy", "version": "2.4.6", "vulns": []}
SKIPPED = {
    "name": "torch",
    "skip_reason": "Dependency not found on PyPI and could not be audited: torch (2.13.0)",
}
FOUND = {
    "name": "flask",
    "version": "0.5",
    "vulns": [
        {
            "id": "PYSEC-2019-179",
            "fix_versions": ["1.0"],
            "aliases": ["CVE-2019-1010083", "GHSA-5wv5-4vpf-pj6m"],
        },
        {"id": "PYSEC-2018-66", "fix_versions": [], "aliases": []},
    ],
}
WITHOUT_NETWORK = """Traceback (most recent call last):
  File "requests/adapters.py", line 729, in send
    raise ConnectionError(e, request=request)
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: \
/pypi/numpy/2.4.6/json (Caused by NameResolutionError("Failed to resolve 'pypi.org' ([Errno -2])"))
"""  # noqa: E501


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rankmesh_audit", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answered(*packages: dict) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.pure
def test_all_is_well(audit: ModuleType) -> None:
    assert audit.verdict(answered(CLEAN, CLEAN), "No known vulnerabilities found\n", 2) == (
        audit.CLEAN,
        ["pip-audit asked about 2 of 2 packages: 0 known vulnerabilities"],
    )


@pytest.mark.pure
def test_a_vulnerability_fails_with_what_mends_it(audit: ModuleType) -> None:
    status, lines = audit.verdict(
        answered(CLEAN, FOUND, SKIPPED), "Found 2 known vulnerabilities in 1 package\n", 3
    )
    assert status == audit.VULNERABLE
    assert (
        lines[0]
        == "flask 0.5: PYSEC-2019-179 (CVE-2019-1010083, GHSA-5wv5-4vpf-pj6m), fixed in 1.0"
    )
    assert lines[1] == "flask 0.5: PYSEC-2018-66 (no other name), fixed in no version"
    assert lines[-1] == "pip-audit asked about 2 of 3 packages: 2 known vulnerabilities"


@pytest.mark.pure
def test_a_skipped_package_is_not_asked_about(audit: ModuleType) -> None:
    """pip-audit ends with 0, and with "No known vulnerabilities found", though it skipped all."""
    status, lines = audit.verdict(
        answered(CLEAN, SKIPPED), "No known vulnerabilities found, 1 skipped\n", 2
    )
    assert status == audit.NOT_ASKED
    assert (
        lines[0]
        == f"pip-audit could not ask about 1 of 2 packages: torch ({SKIPPED['skip_reason']})"
    )
    status, lines = audit.verdict(answered(*[SKIPPED] * 60), "", 60)
    assert (
        status == audit.NOT_ASKED
        and "about 60 of 60 packages: torch, " in lines[0]
        and "50 more" in lines[0]
    )


@pytest.mark.pure
def test_a_package_that_the_answer_does_not_have_is_not_asked_about(audit: ModuleType) -> None:
    status, lines = audit.verdict(answered(CLEAN), "", 3)
    assert (status, lines[0]) == (
        audit.NOT_ASKED,
        "pip-audit could not ask about 2 of 3 packages: 2 more",
    )


@pytest.mark.pure
@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (
            WITHOUT_NETWORK,
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org'",
        ),
        ("/usr/bin/python: No module named pip_audit\n", "No module named pip_audit"),
        ("", "it said nothing"),
    ],
)
def test_without_an_answer_it_could_not_ask(audit: ModuleType, errors: str, reason: str) -> None:
    status, (line,) = audit.verdict("", errors, 2)
    assert (
        status == audit.NOT_ASKED
        and line.startswith("pip-audit could not ask: ")
        and reason in line
    )


@pytest.mark.pure
def test_our_own_packages_are_asked_about(audit: ModuleType) -> None:
    names = [one.partition("==")[0].lower() for one in audit.installed()]
    assert {"numpy", "onnx", "protobuf", "cryptography"} <= set(names) and "rankmesh" not in names
    assert not [one for one in audit.installed() if "+" in one]


def test_pip_audit_itself_without_a_network(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip(
        "pip_audit", reason="pip-audit is not installed: pip install 'rankmesh[audit]'"
    )
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port: nothing listens there
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path))  # where it keeps answers
    status, (line,) = audit.ask(["numpy==2.0.0"])
    assert status == audit.NOT_ASKED and line.startswith("pip-audit could not ask: "), line
