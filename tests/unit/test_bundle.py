"""A bundle is one file that runs anywhere, and equal sources give equal bytes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from anycastlab.bundle import bundle

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
def test_equal_sources_give_equal_bytes(package: str) -> None:
    first = bundle(package)
    bundle.cache_clear()
    assert bundle(package) == first


def test_it_holds_the_package_its_data_and_its_parents_alone() -> None:
    names = zipfile.ZipFile(BytesIO(bundle("anycastlab.phone"))).namelist()
    assert {"__main__.py", "anycastlab/__init__.py", "anycastlab/phone/mixes/lab.json"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith("testing.py")]
    assert all(name == "__main__.py" or name.startswith("anycastlab/phone/") for name in names[:1] + names[2:])
