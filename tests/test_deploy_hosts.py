"""Files of docs/deploy for several hosts: their schemas, and what they say about Rankmesh."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
OPTIONS = json.loads((ROOT / "tests" / "data" / "api.json").read_text())["commands"]
SCHEMAS = json.loads((ROOT / "tests" / "data" / "deploy" / "custom_resources.json").read_text())
COMMANDS = {
    "jobset.yaml": ["rankmesh run"],
    "leaderworkerset.yaml": ["rankmesh serve", "rankmesh agent"],
    "mpijob.yaml": ["rankmesh run"],
    "raycluster.yaml": ["rankmesh serve"],
}
FILES = list(COMMANDS)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """All specs of pods in a document."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for one in value.values():
            yield from pods(one)
    elif isinstance(value, list):
        for one in value:
            yield from pods(one)


def pods_of(name: str) -> list[dict[str, Any]]:
    return [pod for document in documents(name) for pod in pods(document)]


def strict(schema: Any) -> Any:
    """A schema that allows no other fields than it names, as a cluster warns of them."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields")
    extra = {"additionalProperties": False} if closed else {}
    return {**{key: strict(one) for key, one in schema.items()}, **extra}


@pytest.mark.pure
@pytest.mark.parametrize("name", FILES)
def test_custom_resources_fit_their_schemas(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema")
    (document,) = [one for one in documents(name) if one["kind"] in SCHEMAS["$defs"]]
    schema = {"$ref": f"#/$defs/{document['kind']}", **strict(SCHEMAS)}
    assert [
        one.message for one in jsonschema.Draft202012Validator(schema).iter_errors(document)
    ] == []


@pytest.mark.pure
@pytest.mark.parametrize("name", FILES)
def test_the_commands_have_all_options(name: str) -> None:
    found = []
    for pod in pods_of(name):
        (container,) = pod["containers"]
        words = [*container.get("command", ["rankmesh", "serve"]), *container["args"]]
        line = " ".join(words).replace("/opt/rankmesh/bin/", "")
        for command, rest in re.findall(r"(?:^| )(rankmesh [a-z]+)(.*)", line):
            given = set(re.findall(r" (--[\w-]+)", rest))
            assert given and given <= set(OPTIONS[command]), command
            found.append(command)
    assert found == COMMANDS[name]


@pytest.mark.pure
@pytest.mark.parametrize("name", [*FILES, "kubernetes.yaml"])
def test_pods_are_contained(name: str) -> None:
    for pod in pods_of(name):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            declared = {volume["name"] for volume in pod.get("volumes", [])}
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= declared


@pytest.mark.pure
@pytest.mark.parametrize("name", [*FILES, "kubernetes.yaml"])
def test_folders_and_keys_are_private(name: str) -> None:
    for pod in pods_of(name):
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            for mount in container.get("volumeMounts", []):
                volume = volumes[mount["name"]]
                if mount["mountPath"] == "/dev/shm":
                    assert volume["emptyDir"]["medium"] == "Memory"
                    assert re.fullmatch(r"\d+Gi", volume["emptyDir"]["sizeLimit"])
                elif mount["mountPath"].endswith("/.cache"):
                    (made,) = pod["initContainers"]
                    assert made["command"][-1].endswith(f"/{mount['subPath']}")
                    assert "--mode=0700" in made["command"]
                elif "secret" in volume:
                    assert mount["readOnly"] and volume["secret"]["defaultMode"] == 0o400


@pytest.mark.pure
def test_the_hosts_of_a_run_find_the_first() -> None:
    (jobset,) = documents("jobset.yaml")
    (hosts,) = jobset["spec"]["replicatedJobs"]
    first = f"{jobset['metadata']['name']}-{hosts['name']}-0-0.{jobset['metadata']['name']}"
    (pod,) = pods(jobset)
    args = pod["containers"][0]["args"]
    assert f"--master-addr={first}" in args
    assert f"--nnodes={hosts['template']['spec']['parallelism']}" in args
    (mpijob,) = documents("mpijob.yaml")
    spec = mpijob["spec"]
    launcher = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    ranks = spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert launcher["args"][launcher["args"].index("-n") + 1] == str(ranks)


@pytest.mark.pure
def test_agents_join_the_leader_of_their_group() -> None:
    group = documents("leaderworkerset.yaml")[0]["spec"]["leaderWorkerTemplate"]
    leader, worker = pods(group)
    server, agent = leader["containers"][0], worker["containers"][0]
    given = dict(one.partition("=")[::2] for one in server["args"])
    assert int(given["--agents"]) == group["size"] - 1
    port = given["--listen"].removeprefix("$(POD_IP):")
    assert f"--join=$(LWS_LEADER_ADDRESS):{port}" in agent["args"]
    assert {"name": "agents", "containerPort": int(port)} in server["ports"]
    paths = {kind: server[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness")}
    assert paths == {"startup": "/v2/health/ready", "liveness": "/v2/health/live"}
    needed = float(given["--drain-delay"]) + float(given["--drain-timeout"])
    assert leader["terminationGracePeriodSeconds"] > needed
    probe = server["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > float(given["--join-timeout"])


@pytest.mark.parametrize("name", FILES)
def test_kubernetes_takes_the_pods(name: str, tmp_path: Path) -> None:
    if shutil.which("kubernetes-validate") is None:
        pytest.skip("no kubernetes-validate: pip install kubernetes-validate")
    own = [one for one in documents(name) if one["kind"] not in SCHEMAS["$defs"]]
    made = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}
        for pod in pods_of(name)
    ]
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all([*own, *made]))
    command = ["kubernetes-validate", "--strict", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
