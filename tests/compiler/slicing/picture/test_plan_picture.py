"""Pictures of plans: well-formed, with every layer, placement and collective, and escaped names."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest
from slicing import graph_of
from tiny_transformer import tiny_transformer

from rankmesh.compiler.slicing.picture.plan_picture import plan_picture
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.explain import layers
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

pytestmark = pytest.mark.pure

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll")


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "rect", "text", "path", "title")
    }
    return [str(element.text) for element in root.iter(f"{SVG}text")]


def test_a_pipeline_has_bands_and_all_of_its_collectives() -> None:
    graph = graph_of(tiny_transformer(layers=3)[0])
    plan = with_stages(graph, random_plan(graph, propagate(graph, 2), 2, seed=4), 2)
    shown = texts(plan_picture(graph, plan, HostCosts(), ["summary"]))
    rows = layers(graph, plan, HostCosts())
    assert {"stage 0: ranks 0 to 1", "stage 1: ranks 2 to 3"} <= set(shown)
    for row in rows:
        assert not row.nodes or any(text.startswith(row.name) for text in shown)
    drawn = Counter(kind for text in shown for kind in text.split(" + ") if kind in KINDS)
    wanted = sum((row.collectives for row in rows), Counter[str]())
    assert drawn == Counter({kind: wanted[kind] for kind in KINDS if wanted[kind]})
    assert any(text.startswith(f"{wanted['Send']} Send to stage 1") for text in shown)


def test_layers_that_are_alike_are_drawn_once() -> None:
    graph = graph_of(tiny_transformer(layers=4)[0])
    found = texts(plan_picture(graph, SlicePlan(1, {}), HostCosts(), []))
    folded = [row for row in layers(graph, SlicePlan(1, {}), HostCosts()) if row.alike > 1]
    for row in folded:
        assert f"{row.name} to {row.last}   x{row.alike}" in found


def test_names_are_escaped() -> None:
    graph = graph_of(tiny_transformer()[0])
    name = '</text><script>alert("&")</script>'
    graph.nodes[-1].name = name
    svg = plan_picture(graph, SlicePlan(1, {}), HostCosts(), [name])
    assert "<script" not in svg
    assert name in texts(svg)
