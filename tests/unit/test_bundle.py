"""A bundle is one file that runs anywhere, and equal sources give equal bytes."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from anycastlab.bundle import SHARED, bundle

CONTROL_SIDE = ("pyinfra", "pydantic", "pylxd", "librouteros", "click", "rich", "yaml", "jinja2", "requests")
PROGRAMS = ("anycastlab.probe", "anycastlab.phone", "anycastlab.virtual_router")


@pytest.mark.parametrize("package", PROGRAMS)
def test_it_runs_without_anything_else_of_ours(package: str, tmp_path: Path) -> None:
    program = tmp_path / "program.pyz"
    program.write_bytes(bundle(package))
    # -I and a folder of its own keep the repository out. The interpreter is the environment's, for dnspython; what else
    # is installed there is made unimportable.
    run = (
        "import runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({CONTROL_SIDE!r}))\n"
        f"sys.argv = [{str(program)!r}, '--help']\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "usage:" in result.stdout


@pytest.mark.parametrize("package", PROGRAMS)
def test_all_of_it_imports_the_standard_library_dnspython_and_itself_alone(package: str) -> None:
    archive = zipfile.ZipFile(BytesIO(bundle(package)))
    sources = [name for name in archive.namelist() if name.endswith(".py") and name != "__main__.py"]
    imported = {name for source in sources for name in imports(archive.read(source).decode())}
    assert len(imported) > 10
    imported.discard("anycastlab.__version__")  # no module
    mine = {name for name in imported if name == "anycastlab" or name.startswith("anycastlab.")}
    known = {"anycastlab", *(name.removesuffix(".py").replace("/", ".") for name in sources)}
    assert {name for name in mine if not known & {name, f"{name}.__init__"}} == set()
    assert {name.split(".")[0] for name in imported - mine} - sys.stdlib_module_names - {"dns"} == set()


def imports(source: str) -> set[str]:
    """Modules that are imported anywhere in it, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module is not None
            # `from anycastlab import phone` imports a module of that name.
            deep = node.module == "anycastlab"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if deep else {node.module}
    return found


@pytest.mark.parametrize("package", PROGRAMS)
def test_equal_sources_give_equal_bytes(package: str) -> None:
    first = bundle(package)
    bundle.cache_clear()
    assert bundle(package) == first


def test_it_holds_the_package_its_data_and_its_parents_alone() -> None:
    names = zipfile.ZipFile(BytesIO(bundle("anycastlab.phone"))).namelist()
    assert {"__main__.py", "anycastlab/__init__.py", "anycastlab/phone/mixes/lab.json"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith("testing.py")]
    shared = {"__main__.py", "anycastlab/__init__.py", *(f"anycastlab/{name}" for name in SHARED)}
    assert all(name in shared or name.startswith("anycastlab/phone/") for name in names)
