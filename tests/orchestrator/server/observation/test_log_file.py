"""The file of the access log on a full disk: told once, requests go on, lines come again."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from processes import wait_until
from served_http import serving, tensor
from served_models import echo
from small_disk import fill, small_disk

from rankmesh.orchestrator.server.observation.log_file import LogFile

LINE = b"a line of the log\n"
X = np.arange(4, dtype=np.float32)


def test_lines_that_a_full_disk_loses_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rankmesh.server")
    with small_disk(tmp_path / "disk") as disk:
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - 4096)  # one page is free
        log = LogFile(str(disk / "log"))
        for _ in range(300):
            log.append(LINE)
        filler.unlink()
        log.append(LINE)
        log.close()
        kept = (disk / "log").read_bytes().splitlines(keepends=True)
    whole, part = divmod(4096, len(LINE))
    assert kept == [*[LINE] * whole, LINE[:part] + b"\n", LINE]  # one line is torn, none joined
    assert caplog.messages == [
        f"{disk}/log: the access log cannot be written: No space left on device. Requests go on "
        "without a line until it can.",
        f"{disk}/log: takes lines again; {300 - whole} were lost.",
    ]


def test_requests_go_on_while_the_disk_of_the_log_is_full(tmp_path: Path) -> None:
    told: list[str] = []
    with small_disk(tmp_path / "disk") as disk:
        filler, log = fill(disk), disk / "log"
        options = "--access-log", "json", "--access-log-file", str(log)
        with serving(echo(tmp_path, X.size), *options) as server:
            stderr = server.process.stderr
            assert stderr is not None
            reader = threading.Thread(target=lambda: told.extend(stderr), daemon=True)
            reader.start()
            for _ in range(20):
                assert server.infer("echo", [tensor("x", X)]).status == 200
            wait_until(lambda: bool(told), "a line about the log")
            filler.unlink()
            assert server.infer("echo", [tensor("x", X)], id="later").status == 200
            wait_until(lambda: "later" in log.read_text(), "a line of the log")
            assert server.terminate() == 0
            reader.join()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[-1]["id"] == "later"
    text = "".join(told)
    assert (text.count("cannot be written"), text.count("takes lines again")) == (1, 1), text
    assert "Traceback" not in text
