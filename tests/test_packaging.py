import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

import rankmesh

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parents[1]
NOT_PACKAGES = {"tests", "bench", "docs", "examples", "build", "dist"}
BUILD = """
import sys
from setuptools import build_meta
out = sys.argv[1]
build_meta.build_wheel(out)
build_meta.build_sdist(out)
"""


def settings() -> dict:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def package_folders() -> list[Path]:
    """The root and every folder below it that has an __init__.py."""
    found = [CHECKOUT]
    for top in CHECKOUT.iterdir():
        if top.name not in NOT_PACKAGES and not top.name.startswith(".") and top.is_dir():
            found += [init.parent for init in top.rglob("__init__.py")]
    return found


def dotted(folder: Path) -> str:
    return ".".join(("rankmesh", *folder.relative_to(CHECKOUT).parts))


def package_files() -> set[str]:
    """What a wheel must hold of the package: every module, and the data that pyproject.toml
    names."""
    files = {path for folder in package_folders() for path in folder.glob("*.py")}
    for package, patterns in settings()["tool"]["setuptools"]["package-data"].items():
        folder = CHECKOUT.joinpath(*package.split(".")[1:])
        for pattern in patterns:
            found = set(folder.glob(pattern))
            assert found, f"package-data names {pattern} of {package}, which is not there"
            files |= found
    return {path.relative_to(CHECKOUT).as_posix() for path in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy of the checkout."""
    found = [dist.version for dist in distributions(name="setuptools")] or ["none"]
    if found == ["none"] or int(found[0].split(".")[0]) < 77:
        pytest.skip(
            f"building needs setuptools 77 or newer (the extra `test` brings it), found {found[0]}"
        )
    source = tmp_path_factory.mktemp("rankmesh-main")
    made = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".hypothesis", ".*_cache"
    )
    shutil.copytree(CHECKOUT, source, symlinks=True, ignore=made, dirs_exist_ok=True)
    out = tmp_path_factory.mktemp("built")
    run = subprocess.run(
        [sys.executable, "-c", BUILD, str(out)], cwd=source, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return out


def readme_links() -> list[str]:
    """What README.md links to and shows, and what pyproject.toml does."""
    text = (CHECKOUT / "README.md").read_text()
    return [
        *re.findall(r"\]\(([^)\s]+)\)", text),
        *re.findall(r"(?m)^\[[^]]+\]: (\S+)$", text),
        *settings()["project"]["urls"].values(),
    ]


@pytest.mark.pure
def test_the_readmes_links_work_on_a_package_index_and_lead_to_files_that_exist():
    home = settings()["project"]["urls"]["Homepage"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    inside = re.compile(rf"(?:{re.escape(home)}/(?:blob|tree)/main|{re.escape(raw)}/main)/([^#]+)")
    found = [inside.match(link) for link in readme_links()]
    assert {link for link, match in zip(readme_links(), found, strict=True) if not match} <= {
        home,
        f"{home}/issues",
    }
    missing = [match[1] for match in found if match and not (CHECKOUT / match[1]).exists()]
    assert len(list(filter(None, found))) > 20 and not missing


@pytest.mark.pure
def test_the_readmes_references_are_defined():
    text = re.sub(r"(?s)```.*?```|`[^`]*`", "", (CHECKOUT / "README.md").read_text())
    defined = set(re.findall(r"(?m)^\[([^]]+)\]: ", text))
    assert set(re.findall(r"\]\[([^]]+)\]", text)) == defined


@pytest.mark.pure
def test_the_anchors_of_the_readmes_links_are_headings():
    for link in readme_links():
        page, _, anchor = link.partition("#")
        if anchor:
            text = (CHECKOUT / page.partition("/main/")[2]).read_text()
            headings = [
                re.sub(r"[^a-z0-9 _-]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in text.splitlines()
                if line.startswith("#")
            ]
            assert anchor in headings, link


def test_the_metadata_name_authors_and_project(built: Path):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert "\nAuthor: Rankmesh developers\n" in metadata
    assert "\nProject-URL: Homepage, https://github.com/rankmesh/rankmesh\n" in metadata


@pytest.mark.pure
def test_every_package_folder_is_listed():
    listed = settings()["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(dotted(folder) for folder in package_folders())


@pytest.mark.pure
def test_tests_are_no_package_and_their_names_are_unique():
    assert not list((CHECKOUT / "tests").rglob("__init__.py"))
    names = [path.name for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


@pytest.mark.pure
def test_the_link_for_type_checkers_leads_to_the_root():
    assert os.readlink(CHECKOUT / ".types" / "rankmesh") == ".."


def test_the_wheel_holds_exactly_the_package(built: Path):
    (wheel,) = built.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(names) == sorted(f"rankmesh/{name}" for name in package_files())


def test_the_sdist_holds_exactly_the_package(built: Path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    about = {"PKG-INFO", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"}
    assert {name for name in names - about if ".egg-info/" not in name} == package_files()


def run_from(folder: Path, *arguments: str) -> str:
    """What Python prints when it sees only `folder`'s copy of the package."""
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_wheel_runs_without_the_checkout(built: Path, tmp_path: Path):
    (wheel,) = built.glob("*.whl")
    assert f"-{rankmesh.__version__}-" in wheel.name
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert run_from(tmp_path, "-c", "import rankmesh; print(rankmesh.__file__)").strip() == str(
        tmp_path / "rankmesh" / "__init__.py"
    )
    model, arrays = (
        str(CHECKOUT / "launch" / "sample" / f"Matmul.{kind}") for kind in ("mindir", "npz")
    )
    run_from(tmp_path, "-m", "rankmesh", "run", model, "--inputs", arrays, "--expect", arrays)
