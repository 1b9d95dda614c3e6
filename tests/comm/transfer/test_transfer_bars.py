"""Bars of transfers: on a terminal, and gone with the last one."""

from __future__ import annotations

import pytest

from rankmesh.comm.transfer import transfer_bars
from rankmesh.comm.transfer.transfer_bars import TransferBars

pytestmark = pytest.mark.pure


def test_bars_show_names_and_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transfer_bars, "wanted", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    bars = TransferBars()
    bars.tell("a: bert", 1 << 20, 4 << 20)
    bars.tell("b: [red]gpt\x1b", 2 << 20, 2 << 20)
    bars.end("a: bert")
    bars.end("b: [red]gpt\x1b")
    bars.end("b: [red]gpt\x1b")
    shown = capsys.readouterr().err
    assert "a: bert" in shown and "1.0/4.0 MiB" in shown and r"b: [red]gpt\x1b" in shown


def test_nothing_shows_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    bars = TransferBars()
    bars.tell("a: bert", 1, 4)
    bars.end("a: bert")
    assert capsys.readouterr() == ("", "")
