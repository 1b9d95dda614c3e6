"""Files of tokens: what they may hold, and errors that name the file and show no token."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rankmesh import UsageError
from rankmesh.orchestrator.server.access.roles import AccessRole
from rankmesh.orchestrator.server.access.tokens import AccessTokens

pytestmark = pytest.mark.pure
SECRET = "0123456789abcdef-secret"
HASH = hashlib.sha256(SECRET.encode()).hexdigest()


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "tokens.yaml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_tokens_are_found_by_their_secret(tmp_path: Path) -> None:
    text = f"""
tokens:
  - {{name: web, sha256: {HASH.upper()}, rate: 5, burst: 9}}
  - {{name: ops, token: another-secret-of-ops, roles: [infer, manage, metrics]}}
"""
    tokens = AccessTokens.read(written(tmp_path, text, 0o640))
    web, ops = tokens.find(SECRET.encode()), tokens.find(b"another-secret-of-ops")
    assert web is not None and ops is not None
    assert (web.name, web.roles) == ("web", {AccessRole.INFER})
    assert web.rate is not None and (web.rate.rate, web.rate.burst) == (5, 9)
    assert (ops.name, ops.roles, ops.rate) == ("ops", set(AccessRole), None)
    for wrong in (b"", SECRET.encode()[:-1], HASH.encode(), b"\xff"):
        assert tokens.find(wrong) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "got `null`"),
        ("tokens: [", ":1: is no YAML"),
        ("tokens: [{name: a}]", "'a': expected either `sha256` or `token`"),
        (f"tokens: [{{name: a, token: {SECRET}, sha256: {HASH}}}]", "expected either"),
        (f"tokens: [{{name: a, sha256: {SECRET}}}]", "64 hexadecimal digits"),
        ("tokens: [{name: a, token: short}]", "at least 16 characters"),
        (f"tokens: [{{name: a, token: {SECRET}, role: x}}]", "unknown field `role`"),
        (f"tokens: [{{name: a, token: {SECRET}, roles: [root]}}]", "Invalid enum value 'root'"),
        (f"tokens: [{{name: a, token: {SECRET}, rate: 0}}]", "more than 0"),
        (f"tokens: [{{name: a, token: {SECRET}}}, {{name: b, sha256: {HASH}}}]", "same token"),
        (f"tokens: [{{name: a, token: {SECRET}}}, {{name: a, token: {SECRET}2}}]", "same name"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        AccessTokens.read(written(tmp_path, text))
    assert "tokens.yaml" in str(raised.value) and told in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o601])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match="others may read or write it: chmod o="):
        AccessTokens.read(written(tmp_path, "tokens: []", mode))
    with pytest.raises(UsageError, match=r"missing: cannot be read: No such file"):
        AccessTokens.read(str(tmp_path / "missing"))
