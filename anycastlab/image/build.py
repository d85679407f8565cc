"""Makes sure the base image is in Incus: builds and imports it when it is not. One build at a time per cache.

Everything the build makes lies in one work directory that goes away whatever happens. A `kill -9` cannot be caught: the
processes die with us (see `commands.contained`), and the next build removes the directory, which it recognises by its
free lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from anycastlab.host import apt, mirror
from anycastlab.image import commands, derive, limits, overlay
from anycastlab.image.definition import DEFAULT_RELEASE, DerivedDefinition, ImageDefinition
from anycastlab.image.errors import ImageError
from anycastlab.image.failure import explain
from anycastlab.image.process import ending_signals_interrupt, run_piped, undisturbed
from anycastlab.image.store import LOCAL, ImageStore
from anycastlab.paths import cache_dir

Say = Callable[[str], None]
"""Receives one line of progress for the person who waits."""

_WORK_PREFIX: Final = "anycastlab-image-"
_FAILED_LOG: Final = "image-build-failed-"
_KEYRINGS: Final = tuple(
    Path("/usr/share/keyrings") / name for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
)
_PROGRAMS: Final = {
    "mmdebstrap": "mmdebstrap",
    "sqfstar": "squashfs-tools",
    "unsquashfs": "squashfs-tools",
    "setpriv": "util-linux",
}
_PHASES: Final = {
    "I: running apt-get update": "reading the package lists",
    "I: downloading packages": "downloading packages",
    "I: extracting archives": "unpacking the base system",
    "I: installing remaining packages": "installing packages",
    "I: creating tarball": "packing",
}


def ensure(
    image: str = "", *, release: int = DEFAULT_RELEASE, store: ImageStore | None = None, say: Say = lambda _line: None
) -> str:
    """Returns the alias of the base image in the server, building it first if it has to.

    `image` is empty for the one built from nothing, `REMOTE:NAME` for one made from another server's
    (`images:debian/13`; `release` is then the image's own), or the alias of an image that is already there.
    """
    store = store or ImageStore()
    if ":" in image:
        return ensure_built(DerivedDefinition(store.architecture(), source=image), store=store, say=say)
    if image:
        if not store.has(image):
            raise ImageError(
                f"The Incus server has no image {image!r}.",
                "Say image = 'local' to build one, or name one of a remote like `images:debian/13`.",
            )
        return image
    definition = ImageDefinition(architecture=store.architecture(), release=release)
    return ensure_built(definition, store=store, say=say)


def ensure_built(definition: ImageDefinition, *, store: ImageStore, say: Say = lambda _line: None) -> str:
    """Returns the alias of `definition`'s image, which is in the server then. Builds it once, also when two ask."""
    if store.find(definition):
        return definition.alias
    _require_native(definition)
    with _only_one_builder(say):
        if store.find(definition):
            return definition.alias
        _require_programs()
        with ending_signals_interrupt(), _work_directory() as work:
            derived = isinstance(definition, DerivedDefinition)
            _require_room(work, store, limits.BUILD_DISK_MIB + (limits.SOURCE_DISK_MIB if derived else 0))
            started = time.monotonic()
            origin = definition.source if isinstance(definition, DerivedDefinition) else f"Debian {definition.release}"
            say(f"Building the base image {definition.alias} ({origin}; about a minute, only once) …")
            metadata, rootfs = _build(definition, work, store, say)
            size_mib = rootfs.stat().st_size / 2**20
            say(f"  importing {size_mib:.0f} MiB into Incus …")
            store.import_image(definition, metadata, rootfs)
            say(f"  base image ready after {time.monotonic() - started:.0f} s")
    return definition.alias


def _build(definition: ImageDefinition, work: Path, store: ImageStore, say: Say) -> tuple[Path, Path]:
    """Returns the paths of metadata and root file system, both inside `work`."""
    unpack = source_name = ""
    if isinstance(definition, DerivedDefinition):
        say(f"  fetching {definition.source} …")
        source, definition = derive.fetch(definition, work, store)
        unpack, source_name = source.unpack_command(), f"{definition.source} {source.fingerprint}"
    root = os.geteuid() == 0
    overlay_path, options_path = work / "overlay.tar", work / "apt.conf"
    metadata, rootfs = work / "metadata.tar", work / "rootfs.squashfs"
    log = cache_dir() / "image-build.log"
    overlay_path.write_bytes(overlay.overlay_tar(definition))
    options_path.write_text(commands.apt_options(commands.parse_proxies(_output("apt-config", "dump"))))
    metadata.write_bytes(overlay.metadata_tar(definition, int(time.time()), source_name))
    sources = mirror.source_lines(apt.archives(), definition.codename)
    builder = commands.builder_command(
        definition,
        root=root,
        overlay=overlay_path,
        apt_options=options_path,
        keyring=_keyring(),
        sources_on_stdin=bool(sources),
        unpack=unpack,
    )

    def on_line(line: str) -> None:
        for start, phase in _PHASES.items():
            if line.startswith(start):
                say(f"  {phase} …")

    outcome = run_piped(
        commands.contained(builder, root=root),
        commands.squash_command(rootfs),
        stdin=sources.encode(),
        log=log,
        on_line=on_line,
        # TMPDIR: mmdebstrap unpacks there; C.UTF-8: its messages are read by `failure`.
        environment={**os.environ, "TMPDIR": str(work), "LC_ALL": "C.UTF-8"},
        timeout_s=limits.BUILD_TIMEOUT_S,
    )
    if not outcome.good:
        raise explain(outcome, definition, _keep(log))
    return metadata, rootfs


def _keep(log: Path) -> Path:
    """The log of a failed build under a name that the next build leaves alone; of older ones the last few stay."""
    kept = log.with_name(f"{_FAILED_LOG}{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log")
    log.replace(kept)
    for old in sorted(log.parent.glob(f"{_FAILED_LOG}*.log"))[: -limits.FAILED_LOGS]:
        old.unlink(missing_ok=True)
    return kept


def _require_native(definition: ImageDefinition) -> None:
    here = platform.machine()
    if definition.architecture != here:
        raise ImageError(
            f"The Incus server needs an image for {definition.architecture}, but this machine is {here}, and building "
            "it here would run it emulated.",
            "Run this on the server itself, or set `image` to the alias of one that is there.",
        )


def _require_programs() -> None:
    missing = sorted({package for program, package in _PROGRAMS.items() if not shutil.which(program)})
    if missing:
        raise ImageError(f"Building the base image needs {' and '.join(missing)}.", "Run `anycastlab setup`.")
    _keyring()


def _keyring() -> str:
    for path in _KEYRINGS:
        if path.exists():
            return str(path)
    raise ImageError(
        "The keys of the Debian archive are not installed (debian-archive-keyring).", "Run `anycastlab setup`."
    )


def _require_room(work: Path, store: ImageStore, needed_mib: int) -> None:
    places = [(work, needed_mib)]
    server_directory = Path(os.environ.get("INCUS_DIR", "/var/lib/incus"))
    if store.remote == LOCAL and server_directory.exists():
        places.append((server_directory, limits.STORE_DISK_MIB))
    for path, needed in places:
        free = shutil.disk_usage(path).free >> 20
        if free < needed:
            raise ImageError(
                f"Building the base image needs {needed} MiB free in {path}, and there are {free} MiB.",
                "Free some space, or name another directory in TMPDIR.",
            )
    available = _available_memory_mib()
    if available < limits.BUILD_MEMORY_MIB:
        raise ImageError(
            f"Building the base image needs {limits.BUILD_MEMORY_MIB} MiB of memory, and {available} MiB are free.",
            "Stop something large and run it again.",
        )


def _available_memory_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return limits.BUILD_MEMORY_MIB


@contextlib.contextmanager
def _only_one_builder(say: Say) -> Iterator[None]:
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "image.lock").open("w") as lock:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    say("Another run is building the base image; waiting for it …")
                    waiting = True
                time.sleep(limits.LOCK_POLL_S)
        yield


@contextlib.contextmanager
def _work_directory() -> Iterator[Path]:
    """A new directory with a lock held on it: on disk rather than in memory, open to mmdebstrap's other users."""
    base = Path(os.environ.get("TMPDIR", "/var/tmp"))
    _remove_abandoned(base)
    work = Path(tempfile.mkdtemp(prefix=_WORK_PREFIX, dir=base))
    work.chmod(0o711)
    handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield work
    finally:
        with undisturbed():
            _remove(work)
            os.close(handle)


def _remove_abandoned(base: Path) -> None:
    """Removes what a killed build left: own directories that nobody holds a lock on."""
    for path in base.glob(f"{_WORK_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(handle)


def _remove(path: Path) -> None:
    trees = [str(tree) for tree in path.glob("mmdebstrap.*")]
    if trees and os.geteuid() != 0:
        # What is in there belongs to subordinate users: only inside their name space may it be removed. The then empty
        # directories lie in ours, which is for the `rm` below.
        subprocess.run(["mmdebstrap", "--unshare-helper", "rm", "-rf", "--", *trees], capture_output=True, check=False)
    # `rm --one-file-system`: should a mount of the build still be there, what is behind it must survive.
    # Again when something was still being written: killed processes take a moment to go.
    for _ in range(limits.REMOVAL_ATTEMPTS):
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], capture_output=True, check=False)
        if not path.exists():
            break
        time.sleep(limits.LOCK_POLL_S)


def _output(*command: str) -> str:
    """Standard output, or nothing where the program does not exist (a machine without apt)."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
