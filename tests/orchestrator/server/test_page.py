"""The page of a server: its document, who may see it, and what a browser shows of it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browsing
from processes import wait_until
from served_http import ServerProcess, serving, tensor
from served_models import echo

import rankmesh

TOKEN, OTHER = "token-of-the-page-tests", "token-without-the-role"
HOSTILE = "<img src=x onerror=alert(1)>"
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("page")
    model = echo(folder, X.size)
    config, tokens = folder / "serve.yaml", folder / "tokens.yaml"
    config.write_text(
        f"models: [{{path: {model}, replicas: 2}}, {{path: {model}, name: '{HOSTILE}'}}]"
    )
    tokens.touch(0o600)
    tokens.write_text(
        f"tokens: [{{name: ops, token: {TOKEN}, roles: [metrics, infer]}}, "
        f"{{name: web, token: {OTHER}}}]"
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving(config, "--tokens", str(tokens), headers=headers) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with browsing() as made:
        yield made


def overview(server: ServerProcess) -> Any:
    return server.get("/overview").json


def pids(server: ServerProcess) -> list[int]:
    return [
        rank["pid"]
        for model in overview(server)["models"]
        for replica in model["replicas"]
        for rank in replica["ranks"]
    ]


def test_the_page_comes_without_a_token_and_has_no_data(server: ServerProcess) -> None:
    found = ServerProcess(server.process, server.port).get("/")
    assert found.status == 200 and found.headers["content-type"].startswith("text/html")
    text = found.body.decode()
    assert "echo" not in text and not re.search(r"(src|href)=\"(?!data:,)", text)
    assert "innerHTML" not in text and " style=" not in text
    policy = found.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert server.ask("POST", "/", b"").status == 405
    foreign = server.ask("GET", "/", headers={"Host": "evil.example"})
    assert foreign.status == 421


def test_the_document_needs_the_role_of_metrics(server: ServerProcess) -> None:
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {OTHER}"}, 403)):
        bare = ServerProcess(server.process, server.port, headers=headers)
        assert bare.get("/overview").status == status
    foreign = server.ask("GET", "/overview", headers={"Origin": "http://evil.example"})
    assert foreign.status == 403
    assert server.ask("POST", "/overview", b"").status == 405


def test_the_document_tells_of_models_replicas_and_ranks(server: ServerProcess) -> None:
    assert server.infer("echo", [tensor("x", X)]).status == 200
    found = overview(server)
    assert found["ready"] and found["state"] == "ready" and found["processors"] >= 1
    echoed, hostile = found["models"]
    assert (echoed["name"], hostile["name"]) == ("echo", HOSTILE)
    assert echoed["answered"] == echoed["total_seconds"]["count"] >= 1
    assert sum(count for _, count in echoed["total_seconds"]["buckets"]) == echoed["answered"]
    assert [one["replica"] for one in echoed["replicas"]] == [0, 1]
    (rank,) = echoed["replicas"][0]["ranks"]
    assert rank["pid"] > 0 and not rank["paused"] and rank["processor_seconds"] > 0
    assert len(set(pids(server))) == 3


def test_outages_are_told_with_time_and_reason(server: ServerProcess) -> None:
    before = overview(server)
    victim = before["models"][0]["replicas"][0]["ranks"][0]["pid"]
    os.kill(victim, signal.SIGKILL)

    def over() -> bool:
        found = overview(server)["outages"]
        return bool(found) and found[-1]["seconds"] is not None

    wait_until(over, "the end of the outage")
    (found,) = overview(server)["outages"]
    assert (found["model"], found["version"], found["replica"]) == ("echo", 1, 0)
    assert "SIGKILL" in found["error"] and found["seconds"] > 0
    assert before["time"] - 1 <= found["time"] <= overview(server)["time"]


def test_a_browser_shows_it_and_follows(server: ServerProcess, browser: Browser) -> None:
    root = f"http://127.0.0.1:{server.port}/"
    browser.open(root)
    browser.wait("!document.getElementById('access').hidden")
    assert "echo" not in browser.text()
    for token, shown in (("wrong", "this token is not known"), (OTHER, "role `metrics`")):
        enter(browser, token)
        browser.wait(f"document.getElementById('notice').innerText.includes('{shown}')")
    enter(browser, TOKEN)
    browser.wait("document.querySelectorAll('tbody tr').length === 3")
    assert browser.evaluate("document.getElementById('state').innerText") == "ready"
    assert HOSTILE in browser.text() and browser.evaluate("document.images.length") == 0

    assert server.infer("echo", [tensor("x", X)]).status == 200
    latency = "document.querySelectorAll('svg')[1].getAttribute('aria-label')"
    browser.wait(f"/median [0-9.]+ (ms|s)/.test({latency})")
    victim = pids(server)[1]
    os.kill(victim, signal.SIGSTOP)
    try:
        browser.wait("document.body.innerText.includes('paused')")
    finally:
        os.kill(victim, signal.SIGKILL)
    browser.wait(f"document.getElementById('events').innerText.includes('{victim}')")
    browser.wait("document.getElementById('events').innerText.includes('ready after')")
    assert browser.requested() <= {root, f"{root}overview", "about:blank"}
    assert not browser.faults()


def enter(browser: Browser, token: str) -> None:
    """Send the form with a token."""
    browser.wait("!document.getElementById('access').hidden")
    browser.evaluate(
        f"document.getElementById('token').value = '{token}';"
        "document.querySelector('#access button').click()"
    )


def test_a_server_that_is_gone_is_told(server: ServerProcess, browser: Browser) -> None:
    os.kill(server.process.pid, signal.SIGTERM)
    browser.wait("document.getElementById('state').innerText === 'gone'")
    assert "does not answer since" in browser.text() and "echo" in browser.text()


def test_the_asgi_application_has_the_page_too(tmp_path: Path) -> None:
    found: dict[str, Any] = {}

    async def ask(app: Any, path: str) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(event: Any) -> None:
            found[path] = found.get(path, b"") + event.get("body", b"")

        await app({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)

    async def both() -> None:
        app = rankmesh.asgi_app(orchestrator)
        await ask(app, "/")
        await ask(app, "/overview")

    with rankmesh.Orchestrator(echo(tmp_path, 4)) as orchestrator:
        asyncio.run(both())
    assert found["/"].startswith(b"<!doctype html>") and b'"name":"echo"' in found["/overview"]
