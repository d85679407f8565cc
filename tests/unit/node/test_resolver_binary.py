"""Obtaining AdGuard Home, with another world: wrong checksum, machine and version, and sources that do not answer."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from anycastlab.node import architecture, resolver_binary
from anycastlab.node.errors import ResolverError
from anycastlab.node.lockfile import Lock, packaged
from anycastlab.node.resolver_binary import Binary, Tools, Unreachable, obtain

ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(40)
X86 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x3e\x00" + bytes(40)
VERSION = "v0.107.79"
SITE = "https://release.example/download"


def lock(**sha256: str) -> Lock:
    return Lock(
        VERSION,
        34,
        "example.org/AdGuardHome",
        "1.26.6",
        SITE,
        {f"AdGuardHome_linux_{k}.tar.gz": v for k, v in sha256.items()},
    )


def pinned(world: World) -> Lock:
    """A lock file that knows what the release site of this world has."""
    archives = {url.rpartition("/")[2]: sha(page) for url, page in world.pages.items() if url.endswith(".gz")}
    return dataclasses.replace(lock(), sha256=archives)


def archive(program: bytes, member: str = "AdGuardHome/AdGuardHome") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"./{member}")
        info.size = len(program)
        tar.addfile(info, io.BytesIO(program))
    return out.getvalue()


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class World:
    """A release site and a Go that the test decides about; both count how often they are asked."""

    pages: dict[str, bytes] = field(default_factory=dict)
    go: str | None = None  # version
    built: bytes = X86
    prints: str = f"AdGuard Home, version {VERSION}\n"
    fetched: list[str] = field(default_factory=list)
    ran: list[list[str]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)

    def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if url not in self.pages:
            raise Unreachable(f"{url} cannot be fetched (no route to host)")
        return self.pages[url]

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None,
        environment: dict[str, str],
        timeout_s: float,  # noqa: ARG002
    ) -> subprocess.CompletedProcess[str]:
        self.ran.append(list(argv))
        self.environments.append(environment)
        if argv[-1] == "--version":
            return subprocess.CompletedProcess(argv, 0, self.prints, "")
        if self.go is None:
            return subprocess.CompletedProcess(argv, 127, "", "there is no go")
        if argv[1] == "env":
            return subprocess.CompletedProcess(argv, 0, f"go{self.go}\n", "")
        assert cwd is not None
        assert {entry.name for entry in cwd.iterdir()} == {"go.mod", "go.sum"}
        Path(argv[argv.index("-o") + 1]).write_bytes(self.built)
        return subprocess.CompletedProcess(argv, 0, "", "")

    @property
    def builds(self) -> int:
        return sum(argv[:2] == ["go", "build"] for argv in self.ran)

    def tools(self) -> Tools:
        return Tools(self.fetch, self.run, "x86_64")


def released(program: bytes, arch: str = "amd64") -> dict[str, bytes]:
    packed = archive(program)
    name = f"AdGuardHome_linux_{arch}.tar.gz"
    # The list on the release site says what is there; who changes the one changes the other.
    return {
        f"{SITE}/{VERSION}/{name}": packed,
        f"{SITE}/{VERSION}/checksums.txt": f"{sha(packed)}  ./{name}\n".encode(),
    }


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Path]:
    return {"folder": tmp_path / "cache"}


def test_a_release_is_verified_and_cached(place: dict[str, Path]) -> None:
    world = World(released(X86))
    # when it is obtained twice
    first = obtain("auto", "amd64", world=world.tools(), lock=pinned(world), **place)
    again = obtain("auto", "x86_64", world=world.tools(), lock=pinned(world), **place)
    # then the program is the archive's, fetched once
    assert first == again == Binary(first.path, VERSION, "x86_64", sha(X86), "release")
    assert first.path.read_bytes() == X86
    assert first.path.stat().st_mode & 0o777 == 0o755
    assert len(world.fetched) == 1
    # and nothing half-made is left
    assert not [p for p in place["folder"].iterdir() if p.name.startswith(".") and not p.name.endswith(".lock")]


def test_a_wrong_checksum_is_refused_and_nothing_is_built_instead(place: dict[str, Path]) -> None:
    """Somebody on the way is no reason to go another way in silence. The site's own list is not asked."""
    world = World(released(X86), go="1.26.6")
    with pytest.raises(ResolverError, match=r"has the checksum [0-9a-f]{16}…, expected is 0000000000000000…"):
        obtain("auto", "x86_64", world=world.tools(), lock=lock(amd64="0" * 64), **place)
    assert world.builds == 0
    assert resolver_binary.cached("x86_64", lock(), place["folder"]) is None


@pytest.mark.parametrize("source", ["auto", "release"])
def test_an_archive_without_a_pinned_checksum_is_not_even_fetched(place: dict[str, Path], source: str) -> None:
    world = World(released(X86))
    with pytest.raises(ResolverError, match=r"no checksum of AdGuardHome_linux_amd64\.tar\.gz is pinned"):
        obtain(source, "x86_64", world=world.tools(), lock=lock(arm64="1" * 64), **place)
    assert world.fetched == []


def test_the_archives_of_every_architecture_are_pinned() -> None:
    lock = packaged()
    for machine in ("x86_64", "aarch64", "armv7l"):
        assert len(lock.sha256[lock.archive(architecture.go_architecture(machine))]) == 64
    assert len(set(lock.sha256.values())) == len(lock.sha256)


def test_another_machines_program_is_refused(place: dict[str, Path]) -> None:
    world = World(released(ARM))
    with pytest.raises(ResolverError, match="is for aarch64, the node is x86_64"):
        obtain("release", "x86_64", world=world.tools(), lock=pinned(world), **place)
    assert resolver_binary.cached("x86_64", lock(), place["folder"]) is None


@pytest.mark.parametrize("prints", ["AdGuard Home, version v0.107.60\n", "AdGuard Home, version \n"])
def test_another_version_is_refused(place: dict[str, Path], prints: str) -> None:
    world = World(released(X86), prints=prints)
    with pytest.raises(ResolverError, match=r"pinned is v0\.107\.79"):
        obtain("release", "x86_64", world=world.tools(), lock=pinned(world), **place)


def test_a_program_for_another_machine_carries_its_version(place: dict[str, Path]) -> None:
    good = World(released(ARM + VERSION.encode(), "arm64"))
    assert obtain("release", "aarch64", world=good.tools(), lock=pinned(good), **place).machine == "aarch64"
    assert not good.ran  # it could not run here
    bad = World(released(ARM, "arm64"))
    with pytest.raises(ResolverError, match="of no known version"):
        obtain("release", "aarch64", world=bad.tools(), lock=pinned(bad), folder=place["folder"] / "other")


def test_where_the_site_is_out_of_reach_it_is_built(place: dict[str, Path]) -> None:
    world = World(go="1.27.0")
    binary = obtain("auto", "x86_64", world=world.tools(), lock=lock(), **place)
    assert binary.origin == "module"
    build = next(argv for argv in world.ran if argv[:2] == ["go", "build"])
    assert "-trimpath" in build
    assert f"version.version={VERSION}" in build[build.index("-ldflags") + 1]
    environment = world.environments[world.ran.index(build)]
    assert environment["GOFLAGS"] == "-mod=readonly"
    assert environment["GOARCH"] == "amd64"


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (World(), "Go is not installed"),
        (World(go="1.22.1"), "Go is 1.22.1, older than 1.26.6"),
    ],
)
def test_where_nothing_works_it_is_one_sentence(place: dict[str, Path], world: World, reason: str) -> None:
    with pytest.raises(ResolverError) as caught:
        obtain("auto", "x86_64", world=world.tools(), lock=lock(amd64="0" * 64), **place)
    assert caught.value.problem == (
        f"AdGuard Home {VERSION} for x86_64 cannot be obtained: "
        f"{SITE}/{VERSION}/AdGuardHome_linux_amd64.tar.gz cannot be fetched (no route to host); {reason}."
    )
    assert 'resolver="unbound"' in caught.value.hint


def test_a_named_source_is_not_replaced_by_another(place: dict[str, Path]) -> None:
    world = World(go="1.26.6")
    with pytest.raises(ResolverError, match="cannot be obtained"):
        obtain("release", "x86_64", world=world.tools(), lock=lock(), **place)
    assert world.builds == 0


def test_a_file_is_taken_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(X86)
    binary = obtain(f"file:{path}", "x86_64", world=World().tools(), lock=lock())
    assert (binary.path, binary.origin, binary.sha256) == (path, "file", sha(X86))


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "There is no file"), (b"#!/bin/sh\n" + bytes(20), "is not a Linux program"), (ARM, "is for aarch64")],
)
def test_a_file_that_is_not_it_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "mine"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ResolverError, match=reason):
        obtain(f"file:{path}", "x86_64", world=World().tools(), lock=lock())


def test_a_cached_program_that_was_cut_short_does_not_count(place: dict[str, Path]) -> None:
    world = World(released(X86))
    binary = obtain("auto", "x86_64", world=world.tools(), lock=pinned(world), **place)
    binary.path.write_bytes(X86[:30])
    assert resolver_binary.cached("x86_64", lock(), place["folder"]) is None
    assert obtain("auto", "x86_64", world=world.tools(), lock=pinned(world), **place).path.read_bytes() == X86


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ResolverError) as caught:
        obtain("github", "x86_64", world=World().tools())
    assert str(caught.value) == "adguardhome_source is 'github'. Use auto, release, module, or file: and a path."


def test_an_archive_without_the_program_says_so(place: dict[str, Path]) -> None:
    packed = archive(X86, member="AdGuardHome/README.md")
    pages = {f"{SITE}/{VERSION}/AdGuardHome_linux_amd64.tar.gz": packed}
    with pytest.raises(ResolverError, match="does not hold AdGuardHome/AdGuardHome"):
        obtain("release", "x86_64", world=World(pages).tools(), lock=lock(amd64=sha(packed)), **place)


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ResolverError, match="cannot be kept in"):
        obtain("auto", "x86_64", world=World().tools(), lock=lock(), folder=tmp_path / "cache")


def test_the_lock_file_and_the_go_module_name_the_same_version() -> None:
    pinned = packaged()
    module = Path(resolver_binary.__file__).with_name("module")
    assert f"require {pinned.module} {pinned.version}\n" in (module / "go.mod").read_text()
    assert f"{pinned.module} {pinned.version} h1:" in (module / "go.sum").read_text()
    assert f"go {pinned.go}\n" in (module / "go.mod").read_text()


# As in a deploy: pyinfra puts gevent's versions in place of pipes, processes and `os.close`.
IN_A_DEPLOY = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
from pathlib import Path
from anycastlab.node import resolver_binary
"""


def in_a_deploy(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", IN_A_DEPLOY + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_in_a_deploy_a_time_limit_does_not_wait_for_the_programs_own_children(tmp_path: Path) -> None:
    # Given a program whose child keeps its output open for long after the limit
    note = tmp_path / "child"
    script = f"sleep 30 & echo $! >{note}; echo begun; wait"
    said = in_a_deploy(
        "argv = ['sh', '-c', sys.argv[1]]\n"
        "run = lambda: resolver_binary.run(argv, cwd=None, environment={}, timeout_s=0.5)\n"
        "print(gevent.spawn(run).get().returncode)",
        script,
    )
    assert said == "124\n"
    # Then it has been given up while that child was still at work
    child = int(note.read_text())
    assert Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    os.kill(child, signal.SIGKILL)


def test_in_a_deploy_output_comes_whole_and_apart() -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' a; echo trouble >&2; exit 3"
    said = in_a_deploy(
        "argv = ['sh', '-c', sys.argv[1]]\n"
        "run = lambda: resolver_binary.run(argv, cwd=None, environment={}, timeout_s=60)\n"
        "done = gevent.spawn(run).get()\n"
        "print(done.returncode, set(done.stdout), len(done.stdout), done.stderr)",
        script,
    )
    assert said == "3 {'a'} 300000 trouble\n\n"


def test_in_a_deploy_two_hosts_obtain_it_one_after_the_other(tmp_path: Path) -> None:
    # Given two hosts of one run, greenlets of one process, and a lock that belongs to files, not to processes
    said = in_a_deploy(
        "order = []\n"
        "def host(name):\n"
        "    with resolver_binary._locked(Path(sys.argv[1])):\n"
        "        order.append(name)\n"
        "        gevent.sleep(0.1)\n"
        "        order.append(name)\n"
        "gevent.joinall([gevent.spawn(host, name) for name in 'ab'], raise_error=True)\n"
        "print(*order)",
        str(tmp_path / "lock"),
    )
    assert said.split() in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def test_a_configuration_is_checked_here_where_the_program_can_run(tmp_path: Path) -> None:
    said: list[list[str]] = []

    def run(argv: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        said.append(list(argv))
        return subprocess.CompletedProcess(list(argv), 1, "", '[error] failed err="line 3: bad"\n')

    world = resolver_binary.Tools(resolver_binary.fetch, run, "x86_64")
    here = resolver_binary.Binary(tmp_path / "a", "v1", "x86_64", "0" * 64, "file")
    with pytest.raises(ResolverError, match="AdGuard Home refuses its configuration: line 3: bad"):
        resolver_binary.check_config(here, b"dns: {}\n", world)
    assert "--check-config" in said[0]
    resolver_binary.check_config(replace(here, machine="aarch64"), b"", world)
    assert len(said) == 1
