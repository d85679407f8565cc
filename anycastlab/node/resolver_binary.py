"""Obtaining AdGuard Home: the pinned version as one verified program, cached on the control machine.

    auto        a cached one; else the release archive; else built from the version's checksummed Go module
    release     the release archive only
    module      the Go module only
    file:PATH   a program somebody else made

Whatever the source, a program counts only when its ELF header names the right machine and it says the right version.
Concurrent runs obtain it once (a lock file), and a half-made one is never seen (atomic rename).
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Final, Protocol

from anycastlab import elf, private_file, stored
from anycastlab.node import architecture, lockfile, timing
from anycastlab.node.agent import complaint
from anycastlab.node.errors import ResolverError
from anycastlab.node.lockfile import Lock
from anycastlab.outside_text import one_line
from anycastlab.paths import cache_dir

SOURCES: Final = ("auto", "release", "module")
_MEMBER: Final = "AdGuardHome/AdGuardHome"  # inside the archive, which has one folder
_READ_BLOCK: Final = 1 << 20


class Unreachable(Exception):  # noqa: N818  (a state of the network, which `auto` gets over)
    """A source that cannot be used here; the text says why."""


class Fetch(Protocol):
    """Downloads one file; raises Unreachable if the site does not answer."""

    def __call__(self, url: str) -> bytes: ...


class Run(Protocol):
    """Runs a program; `environment` is added to the present one."""

    def __call__(
        self, argv: Sequence[str], *, cwd: Path | None, environment: dict[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]: ...


@dataclass(frozen=True)
class Binary:
    """A verified program on the control machine."""

    path: Path
    version: str
    machine: str
    sha256: str
    origin: str  # release, module or file


@dataclass(frozen=True)
class Tools:
    """The outside world, so that tests have another."""

    fetch: Fetch
    run: Run
    own_machine: str
    say: Callable[[str], None] = lambda _: None


def fetch(url: str) -> bytes:
    """Download over HTTPS with a bound on time and size."""
    try:
        with urllib.request.urlopen(url, timeout=timing.RELEASE_CONNECT_S) as answer:
            content: bytes = answer.read(timing.RELEASE_ARCHIVE_BYTES + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{url} cannot be fetched ({reason})") from None
    if len(content) > timing.RELEASE_ARCHIVE_BYTES:
        raise Unreachable(f"{url} is larger than any release")
    return content


def run(
    argv: Sequence[str], *, cwd: Path | None, environment: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a program, its output captured.

    In files, not pipes: under gevent, as in a deploy, a pipe is read to its end even after the time limit, and its end
    comes when the program's own children (compilers, git) have ended too.
    """
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                argv, cwd=cwd, env={**os.environ, **environment}, stdout=output, stderr=errors,
                timeout=timeout_s, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            return subprocess.CompletedProcess(list(argv), done.returncode, _text(output), _text(errors))
    except FileNotFoundError:
        return subprocess.CompletedProcess(list(argv), 127, "", f"there is no {argv[0]}")
    except OSError as error:
        return subprocess.CompletedProcess(list(argv), 126, "", str(error))
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(argv), 124, "", f"no end after {timeout_s:g} s")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def tools(say: Callable[[str], None] = lambda _: None) -> Tools:
    """The real world."""
    return Tools(fetch, run, architecture.canonical(os.uname().machine), say)


def check_source(source: str) -> None:
    """Raises ResolverError for a value of `adguardhome_source` that means nothing."""
    if source not in SOURCES and not source.startswith("file:"):
        raise ResolverError(f"adguardhome_source is {source!r}.", "Use auto, release, module, or file: and a path.")


def cached(machine: str, lock: Lock | None = None, folder: Path | None = None) -> Binary | None:
    """The program obtained earlier for this machine, or None. Looks only; good for a dry run."""
    lock = lock or lockfile.packaged()
    path = _cache_path(lock, machine, folder)
    try:
        noted = stored.read_json(_note(path))
        if path.stat().st_size != noted["size"]:
            return None
        return Binary(path, noted["version"], noted["machine"], noted["sha256"], noted["origin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # a cache: what is damaged is made again


def obtain(
    source: str,
    machine: str,
    *,
    world: Tools | None = None,
    lock: Lock | None = None,
    folder: Path | None = None,
) -> Binary:
    """The program for `machine`, obtained now if need be. Raises ResolverError with one sentence if it cannot be.

    `folder` is the cache, which has its usual place.
    """
    check_source(source)
    world = world or tools()
    lock = lock or lockfile.packaged()
    machine = architecture.canonical(machine)
    if source.startswith("file:"):
        return _from_file(Path(source.removeprefix("file:")).expanduser(), machine, lock, world)
    folder = folder or cache_dir() / "resolver"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{lock.version}-{machine}.lock"):
            present = cached(machine, lock, folder)
            if present and source in ("auto", present.origin):
                return present
            return _obtain(source, machine, world, lock, folder)
    except OSError as error:
        raise ResolverError(
            f"AdGuard Home cannot be kept in {folder}: {error.strerror or error}.",
            "Make room there, or set ANYCASTLAB_CACHE to another folder.",
        ) from None


def _obtain(source: str, machine: str, world: Tools, lock: Lock, folder: Path) -> Binary:
    ways = {"release": _from_release, "module": _from_module}
    failures = []
    for origin in ("release", "module") if source == "auto" else (source,):
        fresh = folder / f".{origin}-{machine}.{os.getpid()}"
        try:
            ways[origin](fresh, machine, world, lock)
            fresh.chmod(0o755)
            verify(fresh, machine, lock, world)
            return _keep(fresh, _cache_path(lock, machine, folder), machine, lock, origin)
        except Unreachable as reason:
            failures.append(str(reason))
        finally:
            fresh.unlink(missing_ok=True)
    raise ResolverError(
        f"AdGuard Home {lock.version} for {machine} cannot be obtained: {'; '.join(failures)}.",
        f'Install Go {lock.go} or newer, name a program (adguardhome_source="file:PATH"), or set resolver="unbound".',
    )


def verify(path: Path, machine: str, lock: Lock, world: Tools) -> None:
    """Right machine and right version, or ResolverError."""
    with path.open("rb") as file:
        head = file.read(elf.HEADER_BYTES)
    try:
        found = elf.machine(head)
    except elf.NotElfError:
        raise ResolverError(f"{path.name} is not a Linux program.", "Name AdGuard Home's own program.") from None
    if found != machine:
        raise ResolverError(
            f"AdGuard Home in {path.name} is for {found}, the node is {machine}.", "Name one that is built for it."
        )
    version = _version(path, machine, lock, world)
    if version != lock.version:
        raise ResolverError(
            f"AdGuard Home in {path.name} is {version or 'of no known version'}, pinned is {lock.version}.",
            "Its configuration is written for the pinned version; use that one.",
        )


def check_config(binary: Binary, text: bytes, world: Tools | None = None) -> None:
    """Have AdGuard Home check a configuration on this machine; ResolverError if it refuses.

    Says nothing where the program is another machine's and cannot run here.
    """
    world = world or tools()
    if binary.machine != world.own_machine:
        return
    with tempfile.TemporaryDirectory(prefix="anycastlab-") as folder:
        file = Path(folder, "AdGuardHome.yaml")
        private_file.replace(file, text.decode())
        answer = world.run(
            [str(binary.path), "--check-config", "--no-check-update", "-c", str(file), "-w", folder],
            cwd=None, environment={}, timeout_s=timing.VERSION_LIMIT_S,
        )  # fmt: skip
    if answer.returncode != 0:
        said = one_line(complaint(f"{answer.stdout}\n{answer.stderr}"))
        raise ResolverError(f"AdGuard Home refuses its configuration: {said}.", "Correct the setting; nothing is gone.")


def _version(path: Path, machine: str, lock: Lock, world: Tools) -> str:
    if machine == world.own_machine:
        answer = world.run([str(path), "--version"], cwd=None, environment={}, timeout_s=timing.VERSION_LIMIT_S)
        words = answer.stdout.split()
        return words[-1] if answer.returncode == 0 and words and words[-1].startswith("v") else ""
    # Another machine's program cannot be asked here; the version it was linked with stands in its data.
    return lock.version if _contains(path, lock.version.encode()) else ""


def _contains(path: Path, wanted: bytes) -> bool:
    tail = b""
    with path.open("rb") as file:
        while block := file.read(_READ_BLOCK):
            if wanted in tail + block:
                return True
            tail = block[-len(wanted) :]
    return False


def _from_release(fresh: Path, machine: str, world: Tools, lock: Lock) -> None:
    name = lock.archive(architecture.go_architecture(machine))
    wanted = lock.sha256.get(name)
    if wanted is None:
        raise Unreachable(f"no checksum of {name} is pinned, and an archive is not used without one")
    world.say(f"fetching AdGuard Home {lock.version} for {machine}")
    archive = world.fetch(lock.url(name))
    found = hashlib.sha256(archive).hexdigest()
    if found != wanted:
        raise ResolverError(
            f"{name} of AdGuard Home {lock.version} has the checksum {found[:16]}…, expected is {wanted[:16]}….",
            "Do not use it; somebody may have changed it on the way. Try again from another network.",
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            members = {member.name.removeprefix("./"): member for member in tar.getmembers() if member.isfile()}
            program = tar.extractfile(members[_MEMBER])
            assert program is not None  # it is a regular file
            with program, fresh.open("wb") as out:
                shutil.copyfileobj(program, out)
    except (tarfile.TarError, KeyError, EOFError):
        raise ResolverError(
            f"{name} does not hold {_MEMBER}.", "Report this; the release is not as expected."
        ) from None


def _from_module(fresh: Path, machine: str, world: Tools, lock: Lock) -> None:
    """Build from the Go module; `go.sum` in the package holds the checksum of every source file's archive."""
    _check_go(world, lock)
    world.say(f"building AdGuard Home {lock.version} for {machine} from its Go module, about a minute")
    folder = fresh.with_name(f"{fresh.name}.module")
    folder.mkdir(exist_ok=True)
    try:
        for name in ("go.mod", "go.sum"):
            folder.joinpath(name).write_bytes(resources.files("anycastlab.node").joinpath("module", name).read_bytes())
        version = f"{lock.module}/internal/version"
        environment = {
            "GOOS": "linux", "GOARCH": architecture.go_architecture(machine), "GOARM": "7", "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly", "GOWORK": "off",
        }  # fmt: skip
        link = f"-s -w -X {version}.version={lock.version} -X {version}.channel=release"
        built = world.run(
            ["go", "build", "-trimpath", "-ldflags", link, "-o", str(fresh), lock.module],
            cwd=folder, environment=environment, timeout_s=timing.BUILD_LIMIT_S,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if built.returncode != 0:
        said = (built.stderr.strip() or f"exit {built.returncode}").splitlines()[-1]
        raise Unreachable(f"the Go build failed ({said})")


def can_build(world: Tools, lock: Lock) -> None:
    """Raises Unreachable unless Go is new enough and the module can be had; fetches that one module at most."""
    _check_go(world, lock)
    answer = world.run(
        ["go", "mod", "download", f"{lock.module}@{lock.version}"],
        cwd=None,
        environment={"GOFLAGS": "-mod=mod", "GOWORK": "off", "GO111MODULE": "on"},
        timeout_s=timing.MODULE_LIMIT_S,
    )
    if answer.returncode != 0:
        said = (answer.stderr.strip() or f"exit {answer.returncode}").splitlines()[-1]
        raise Unreachable(f"the Go module cannot be fetched ({said})")


def can_fetch(world: Tools, lock: Lock) -> None:
    """Raises Unreachable unless the release site answers."""
    world.fetch(lock.url("checksums.txt"))


def _check_go(world: Tools, lock: Lock) -> None:
    answer = world.run(["go", "env", "GOVERSION"], cwd=None, environment={}, timeout_s=timing.VERSION_LIMIT_S)
    if answer.returncode != 0:
        raise Unreachable("Go is not installed")
    found = answer.stdout.strip().removeprefix("go")
    if _numbers(found) < _numbers(lock.go):
        raise Unreachable(f"Go is {found}, older than {lock.go}")


def _from_file(path: Path, machine: str, lock: Lock, world: Tools) -> Binary:
    if not path.is_file():
        raise ResolverError(f"There is no file {path}.", "Correct adguardhome_source.")
    if not os.access(path, os.R_OK):
        raise ResolverError(f"The file {path} cannot be read.", "Correct its owner or mode.")
    verify(path, machine, lock, world)
    return Binary(path, lock.version, machine, _digest(path), "file")


def _keep(fresh: Path, path: Path, machine: str, lock: Lock, origin: str) -> Binary:
    binary = Binary(path, lock.version, machine, _digest(fresh), origin)
    noted = {
        "version": binary.version, "machine": machine, "sha256": binary.sha256, "origin": origin,
        "size": fresh.stat().st_size,
    }  # fmt: skip
    note = _note(path)
    note.unlink(missing_ok=True)  # without its note a program does not count, so a death here leaves none
    fresh.replace(path)
    half = note.with_name(f".{note.name}.{os.getpid()}")
    half.write_text(json.dumps(noted, indent=2) + "\n", encoding="utf-8")
    half.replace(note)
    return binary


def _cache_path(lock: Lock, machine: str, folder: Path | None) -> Path:
    name = f"AdGuardHome-{lock.version}-{architecture.canonical(machine)}"
    return (folder or cache_dir() / "resolver") / name


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split()[0].split("-")[0].split(".") if part.isdigit())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file; wait for another run, asking again and again so that other tasks of this run go on."""
    deadline = time.monotonic() + timing.BUILD_LOCK_LIMIT_S
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ResolverError(
                        f"Another run has held {path} for too long.", "End that run, then try again."
                    ) from None
                time.sleep(timing.BUILD_LOCK_POLL_S)
        yield
