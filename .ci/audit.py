"""Asks pip-audit whether the installed packages have known vulnerabilities, and says about which it
could not ask.

    .venv/bin/python .ci/audit.py

Exit status: 0 all packages were asked about, and none has any; 1 one has; 3 pip-audit could not ask
about all. pip-audit itself ends with 0 where the service knows none of the packages, as it does
behind a mirror.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from typing import Any, NamedTuple

OWN = "rankmesh"
CLEAN, VULNERABLE, NOT_ASKED = 0, 1, 3
_PATIENCE = 300.0
"""Seconds for all packages; without a network each may take its own timeout."""
_SHOWN = 10


class Verdict(NamedTuple):
    """The exit status, and what to print."""

    status: int
    lines: list[str]


def installed() -> list[str]:
    """The packages of this environment but our own, as `name==version`; a build's `+cpu` is no
    version of its own.
    """
    found = {(one.metadata["Name"], one.version.partition("+")[0]) for one in distributions()}
    return sorted(f"{name}=={version}" for name, version in found if name.lower() != OWN)


def verdict(output: str, errors: str, wanted: int) -> Verdict:
    """What pip-audit's standard output and error mean, which was asked about `wanted` packages."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (errors.strip().splitlines() or ["it said nothing"])[-1]
        return Verdict(NOT_ASKED, [f"pip-audit could not ask: {reason}"])
    found = [
        f"{one['name']} {one['version']}: {flaw['id']} "
        f"({', '.join(flaw['aliases']) or 'no other name'}), "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    skipped = [one for one in packages if "vulns" not in one]
    unasked = wanted - len(packages) + len(skipped)
    lines = [
        *found,
        *_not_asked(skipped, unasked, wanted),
        f"pip-audit asked about {wanted - unasked} of {wanted} packages: {len(found)} known "
        "vulnerabilities",
    ]
    return Verdict(VULNERABLE if found else NOT_ASKED if unasked or not wanted else CLEAN, lines)


def ask(packages: list[str]) -> Verdict:
    """Run pip-audit on the packages, `name==version` each."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(packages))
        file.flush()
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "--format",
            "json",
            "--desc",
            "off",
            "--progress-spinner",
            "off",
            "--disable-pip",
            "--no-deps",
            "--requirement",
            file.name,
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return verdict("", f"no answer within {_PATIENCE:.0f} s", len(packages))
    return verdict(done.stdout, done.stderr, len(packages))


def _not_asked(skipped: list[dict[str, Any]], unasked: int, wanted: int) -> list[str]:
    if not unasked:
        return []
    names = [one["name"] for one in skipped[:_SHOWN]]
    more = [f"{unasked - len(names)} more"] if unasked > len(names) else []
    reason = f" ({skipped[0]['skip_reason']})" if skipped else ""
    return [
        f"pip-audit could not ask about {unasked} of {wanted} packages: "
        f"{', '.join(names + more)}{reason}"
    ]


if __name__ == "__main__":
    answer = ask(installed())
    print("\n".join(answer.lines))
    sys.exit(answer.status)
