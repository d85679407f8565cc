"""What is installed is pinned to the byte: the lock files have every pinned version, each with its files' checksums."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)
# Python itself asks for it on another system than ours; no environment here gets it.
FOREIGN = {"colorama"}


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return {re.sub(r"[_.]", "-", package.lower()): version for package, version in PIN.findall(text)}


def test_the_lock_file_has_what_constraints_say_and_nothing_else() -> None:
    locked = pins("requirements-dev.lock")
    assert {name: version for name, version in locked.items() if name not in FOREIGN} == pins("constraints.txt")
    assert pins("requirements.lock").items() <= locked.items()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_each_package_has_checksums_and_none_names_a_place(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "index" not in text
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text.partition("\n")[2].strip()):
        first, *hashes = [line.strip(" \\") for line in entry.splitlines()]
        assert PIN.match(first), first
        assert hashes, first
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), first


@pytest.mark.parametrize("package", ["cffi", "cryptography", "gevent", "greenlet", "pydantic-core", "pyyaml", "pynacl"])
def test_what_is_compiled_has_files_for_more_than_one_architecture(package: str) -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entry = re.search(rf"^{package}==.*?(?=^[a-z]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert entry
    assert entry[0].count("--hash=") >= 4


def test_the_bootstrap_installs_by_checksum_alone() -> None:
    script = (ROOT / "scripts" / "bootstrap").read_text(encoding="utf-8")
    installs = [line for line in script.splitlines() if line.startswith("install ")]
    assert installs[0].startswith("install --require-hashes -r ")
    assert [line.split(" #")[0] for line in installs[1:]] == ["install --no-build-isolation -e ."]
    assert "--no-deps" in script
