"""What an installed wheel has: all that lands on machines and all that the product reads of itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "anycastlab"
LEFT_OUT = {".py", ".pyc"}  # code, which setuptools finds by itself
ASK = "from anycastlab.node import template; print(template.TEMPLATES, len(list(template.TEMPLATES.rglob('*.j2'))))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, built from a copy: setuptools leaves things beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(PACKAGE, source / "anycastlab", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (wheel,) = folder.glob("anycastlab-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def files(package: Path) -> set[str]:
    return {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in LEFT_OUT and "__pycache__" not in path.parts
    }


def run(site: Path, *arguments: str) -> str:
    """Python somewhere else, with the wheel's code before any other."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_file_of_the_package_is_in_the_wheel(installed: Path) -> None:
    assert files(installed / "anycastlab") == files(PACKAGE)


def test_templates_are_found_where_the_wheel_is(installed: Path) -> None:
    where, count = run(installed, "-c", ASK).split()
    assert Path(where) == installed / "anycastlab/templates"
    assert int(count) == len(list((PACKAGE / "templates").rglob("*.j2")))


def test_the_program_starts(installed: Path) -> None:
    assert "Home DNS failover as code, measured." in run(installed, "-m", "anycastlab", "--help")
