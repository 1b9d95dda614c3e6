"""Asks a Ray Serve deployment of a model, without a server of HTTP between.

    python main.py MODEL [--ranks 2] [--address auto]

Ray Serve's own HTTP is off: a handle calls the replicas. For HTTP and gRPC put `rankmesh serve`
into the deployment's place.
"""

from __future__ import annotations

import argparse

import numpy as np
import ray
from deployment import application
from ray import serve


def main() -> None:
    """Deploy, ask, and compare the answers of many requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--ranks", default="1")
    parser.add_argument("--address", default="auto")
    options = parser.parse_args()
    ray.init(address=options.address, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    model = serve.run(application({"path": options.model, "ranks": options.ranks}))
    inputs = {"x": np.ones((1, 4), np.float32)}
    answers = [one.result(timeout_s=60) for one in [model.remote(inputs) for _ in range(100)]]
    assert all(np.array_equal(one["y"], answers[0]["y"]) for one in answers)
    print(f"100 answers: y = {answers[0]['y']}")
    serve.shutdown()


if __name__ == "__main__":
    main()
