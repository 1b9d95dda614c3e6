"""Program of a test: an orchestrator on a Ray cluster, which is asked while hosts and ranks go.

    python ray_program.py MODEL

It writes a line when its replicas are ready, asks until one of them is lost, then a hundred times
more, and writes what it has seen as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np

from rankmesh import Orchestrator, UsageError

_PATIENCE = 60.0


def refusal(model: str) -> str:
    """What is said of more ranks than the cluster has room for."""
    try:
        Orchestrator(model, ranks=1, threads=64, launcher="ray").close()
    except UsageError as error:
        return str(error)
    return ""


def main(model: str) -> None:
    """Start, ask, and tell."""
    settings = {"launcher": "ray", "host_timeout": 2.0}
    with Orchestrator(model, ranks=1, replicas=2, threads=2, **settings) as served:  # type: ignore[arg-type]
        x = np.arange(4, dtype=np.float32).reshape(1, 4)
        given = {"x": x, "bias": np.zeros(1, np.float32)}
        answers = [served.predict(given)["y"].tolist()]
        found = served.status().ranks[0].pid
        assert found is not None
        os.kill(found, signal.SIGKILL)  # the hosts share the table of processes
        answers += [served.predict(given)["y"].tolist() for _ in range(100)]
        until = time.monotonic() + _PATIENCE
        while served.status().state != "ready" and time.monotonic() < until:
            time.sleep(0.05)
        print("ready", flush=True)
        until = time.monotonic() + _PATIENCE
        while len(served.status().outages) < 2 and time.monotonic() < until:
            answers.append(served.predict(given)["y"].tolist())
        answers += [served.predict(given)["y"].tolist() for _ in range(100)]
        outages = [(one.error, one.time) for one in served.status().outages]
    same = all(one == answers[0] for one in answers)
    told = {"same": same, "answer": answers[0], "outages": outages}
    print(json.dumps({**told, "refusal": refusal(model)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
