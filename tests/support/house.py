"""House rules in figures: sizes, names, folders and import cycles of the package.

    python tests/support/house.py [--json] [--root CHECKOUT]

The lines of a function are those from `def` to its end. Generated files are exempt.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from import_graph import ROOT, Module, cycles, folder_graph, import_graph, read

MAX_FILE = 450
MAX_FUNCTION = 40
MAX_MEDIAN = 8
MAX_ATTRIBUTES = 15
MAX_MODULES = 20
FAMILIES = {
    "compiler/lowering/primitives",
    "compiler/lowering/lite",
    "compiler/slicing/rules",
    "compiler/convert/operators",
    "worker/executors/torch/operators",
}
"""The folders with one module per family of primitives or operators, which may hold more."""
RULES = (
    "files",
    "functions",
    "size",
    "attributes",
    "repeated classes",
    "folders",
    "cycles of files",
    "cycles of folders",
    "purposes",
)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class House:
    """Everything that is measured; names are paths below the root, with lines or counts."""

    modules: int
    median_function: float
    files: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    attributes: dict[str, int] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    file_cycles: list[list[str]] = field(default_factory=list)
    folder_cycles: list[list[str]] = field(default_factory=list)
    without_purpose: list[str] = field(default_factory=list)

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        """Public class names that exist more than once, with their files."""
        return {name: places for name, places in self.classes.items() if len(places) > 1}


def measure(modules: list[Module]) -> House:
    """The figures of the package."""
    written = [one for one in modules if not one.generated]
    functions = dict(_functions(written))
    files = import_graph(modules)
    return House(
        modules=len(modules),
        median_function=median(functions.values()),
        files={str(one.path): len(one.text.splitlines()) for one in written},
        functions=functions,
        attributes=dict(_attributes(written)),
        classes=_public_classes(written),
        folders=dict(_folder_sizes(modules)),
        file_cycles=cycles(files),
        folder_cycles=cycles(folder_graph(modules, files)),
        without_purpose=_without_purpose(modules),
    )


def _is_on_self(target: ast.expr) -> bool:
    """Whether an assignment's target is `self.name`."""
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _functions(modules: Iterable[Module]) -> Iterator[tuple[str, int]]:
    """Each function's lines, by `path:line name`."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, FunctionNode):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{module.path}:{node.lineno} {node.name}", lines


def _attributes(modules: Iterable[Module]) -> Iterator[tuple[str, int]]:
    """How many attributes each class assigns on self, by `path name`."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                names = {one.attr for part in node.body for one in _assigned_on_self(part)}
                yield f"{module.path} {node.name}", len(names)


def _assigned_on_self(node: ast.AST) -> Iterator[ast.Attribute]:
    if isinstance(node, ast.ClassDef):
        return
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_on_self(node):
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _assigned_on_self(inner)


def _public_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """The files that define each public class name."""
    found = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(module.path))
    return dict(sorted(found.items()))


def _folder_sizes(modules: Iterable[Module]) -> list[tuple[str, int]]:
    """How many modules each folder holds, without `__init__`."""
    inner = [one.path for one in modules if len(one.path.parts) > 1]
    return Counter(str(path.parent) for path in inner if path.stem != "__init__").most_common()


def _without_purpose(modules: Iterable[Module]) -> list[str]:
    """Folders whose `__init__` does not open with one line that ends in a full stop."""
    lines = {}
    for module in modules:
        lines.setdefault(str(module.path.parent), "")
        if module.path.stem == "__init__":
            lines[str(module.path.parent)] = (ast.get_docstring(module.tree) or "").split("\n")[0]
    return sorted(folder for folder, line in lines.items() if not line.endswith("."))


def top(counts: dict[str, int], above: int = 0) -> dict[str, int]:
    """The entries over a limit, largest first."""
    chosen = [(name, count) for name, count in counts.items() if count > above]
    return dict(sorted(chosen, key=lambda one: -one[1]))


def violations(house: House) -> dict[str, set[str]]:
    """The names that break each rule: functions without lines, cycles with all nodes."""
    functions = {name for name, lines in house.functions.items() if lines > MAX_FUNCTION}
    found = (
        set(top(house.files, MAX_FILE)),
        {f"{one.partition(':')[0]} {one.split()[1]}" for one in functions},
        set(_too_many(house)),
        set(top(house.attributes, MAX_ATTRIBUTES)),
        set(house.repeated_classes),
        set(top(house.folders, MAX_MODULES)) - FAMILIES,
        set(map(" ".join, house.file_cycles)),
        set(map(" ".join, house.folder_cycles)),
        set(house.without_purpose),
    )
    return dict(zip(RULES, found, strict=True))


def _too_many(house: House) -> Iterator[str]:
    """The figures of the whole package that are over their limits."""
    if house.median_function > MAX_MEDIAN:
        yield "median function"


def table(house: House) -> Iterator[str]:
    """The figures as lines of text."""
    yield f"modules                    {house.modules}"
    yield f"lines                      {sum(house.files.values())}"
    yield f"functions                  {len(house.functions)}"
    yield f"median function            {house.median_function:g} lines"
    yield f"longest file               {max(house.files.values())} lines"
    yield f"longest function           {max(house.functions.values())} lines"
    yield f"most attributes on self    {max(house.attributes.values())}"
    yield f"largest folder             {max(house.folders.values())} modules"
    yield f"class names that repeat    {len(house.repeated_classes)}"
    yield f"cycles of files, folders   {len(house.file_cycles)}, {len(house.folder_cycles)}"
    yield from _section(f"files over {MAX_FILE} lines", top(house.files, MAX_FILE))
    yield from _section(f"functions over {MAX_FUNCTION} lines", top(house.functions, MAX_FUNCTION))
    yield from _section("attributes on self", top(house.attributes, MAX_ATTRIBUTES))
    yield from _section("modules per folder", top(house.folders))
    for name, places in house.repeated_classes.items():
        yield f"class {name}: {', '.join(places)}"
    for cycle in house.file_cycles + house.folder_cycles:
        yield f"cycle: {' '.join(name or 'rankmesh' for name in cycle)}"
    yield from (f"no purpose in one line: {folder}" for folder in house.without_purpose)


def _section(title: str, rows: dict[str, int]) -> Iterator[str]:
    if rows:
        yield f"\n{title}"
        yield from (f"{count:7}  {name}" for name, count in rows.items())


def main() -> None:
    """Print the table of a checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout; by default this one")
    asked = parser.parse_args()
    house = measure(read(asked.root))
    print(json.dumps(asdict(house), indent=1) if asked.json else "\n".join(table(house)))


if __name__ == "__main__":
    main()
