"""The command lines of the build. Pure: what is run is decided here, how it is run elsewhere."""

from __future__ import annotations

from pathlib import Path

from anycastlab.image.definition import ImageDefinition

_TIDY = (
    # Kept by the packages' own scripts, rebuilt when needed, or different on every build.
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/apt "$1"/var/log/*.log '
    '"$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old '
    '"$1"/etc/ssh/ssh_host_* "$1"/var/lib/dbus/machine-id "$1"/etc/hostname '
    '"$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap'
)
# systemd compares these two with /usr: up to date means no ldconfig, hwdb and catalogue run at a machine's first boot.
_STAMP = 'for d in etc var; do touch -r "$1/usr" "$1/$d/.updated"; done'

# Around the unpacking of another server's image: apt, which runs outside of it, reads our configuration alone.
_KEEP_APT = 'mv "$1/etc/apt" "$1/.apt-of-the-build"'
_RESTORE_APT = (
    'rm -rf "$1/etc/apt" "$1"/var/lib/apt/lists "$1"/var/cache/apt && mv "$1/.apt-of-the-build" "$1/etc/apt" '
    '&& mkdir -p "$1/var/lib/apt/lists/partial" "$1/var/cache/apt/archives/partial" "$1/dev" "$1/proc" "$1/sys"'
)
# As mmdebstrap itself does it: apt outside, with the mirror and the keys of this machine; dpkg inside.
_INSTALL = (
    "echo 'I: installing remaining packages' >&2; "
    'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -o Dir::Bin::dpkg=env -o DPkg::Options::=--unset=TMPDIR '
    '-o DPkg::Options::=dpkg -o DPkg::Options::=--force-confold -o DPkg::Chroot-Directory="$1" --yes install '
)


def builder_command(
    definition: ImageDefinition,
    *,
    root: bool,
    overlay: Path,
    apt_options: Path,
    keyring: str,
    sources_on_stdin: bool,
    unpack: str = "",
) -> list[str]:
    """mmdebstrap, writing a tar of the root file system to its standard output.

    With `sources_on_stdin` it reads its sources.list from its input (an address there may hold a password, and a
    command line is public); without, it uses its own default Debian archive. `unpack` is a shell command that puts a
    Debian into `$1`: the packages are then added to that.
    """
    disable = " ".join(definition.disabled)
    enable = " ".join(definition.enabled)
    if unpack:
        base = ["--variant=custom", f"--setup-hook={_KEEP_APT} && {unpack} && {_RESTORE_APT}"]
        install = [f"{_INSTALL}{' '.join(definition.packages)} >&2"]
    else:
        base = ["--variant=apt", f"--include={','.join(definition.packages)}"]
        install = []
    hooks = [
        *install,
        f"tar-in {overlay} /",
        f'chroot "$1" systemctl --quiet disable {disable}',
        f'chroot "$1" systemctl --quiet enable {enable}',
        'ln -sfn /usr/lib/systemd/system/multi-user.target "$1/etc/systemd/system/default.target"',
        _TIDY,
        _STAMP,
    ]
    return [
        "mmdebstrap",
        f"--mode={'root' if root else 'unshare'}",
        *base,
        "--format=tar",
        f"--architectures={definition.debian_architecture}",
        f"--keyring={keyring}",
        f"--aptopt={apt_options}",
        "--dpkgopt=force-unsafe-io",  # a power cut ruins the build anyway: no need to flush every file
        *(f"--dpkgopt=path-exclude={path}" for path in definition.left_out),
        *(f"--dpkgopt=path-include={path}" for path in definition.kept),
        "--skip=cleanup/apt/lists",  # the tidy hook below does it, with everything else
        "--skip=output/dev",  # Incus brings its own /dev
        *(f"--customize-hook={hook}" for hook in hooks),
        definition.codename,
        "-",
        *(["-"] if sources_on_stdin else []),
    ]


_KILL_ALL = 'trap "kill -KILL 0" TERM; exec 3<&0; "$@" <&3 3<&- & wait $!'
"""Runs its arguments; a SIGTERM kills the whole process group. (A job in the background has its input from fd 3.)"""


def contained(command: list[str], *, root: bool) -> list[str]:
    """The command such that it, its children and its mounts cannot outlive this process, even after a `kill -9`.

    It has to be started as the leader of a process group.
    """
    if root:
        # Mounts and processes of the build live in name spaces that end with their first process.
        name_spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]
        return ["setpriv", "--pdeathsig", "KILL", "--", *name_spaces, *command]
    # Without root, mmdebstrap makes name spaces itself, and its processes in there do not end with it.
    return ["setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", _KILL_ALL, "sh", *command]


_PACK_AND_DRAIN = 'setpriv --pdeathsig KILL -- "$@" && exec cat >/dev/null'
"""Runs its arguments, then takes what is left of the input.

sqfstar ends at the archive's end marker, and tar pads an archive to 10 KiB after it. mmdebstrap passes that padding on
in pieces of 1 KiB: were nobody left to read them (on a busy machine sqfstar is the quicker one), it would call its
archive broken, and end its own process group by SIGHUP, although the image is whole.
"""


def squash_command(target: Path) -> list[str]:
    """sqfstar reads the tar while it is being written, on all processors. It ignores the root directory's own entry:
    its mode has to be given, or `/` is open to everyone.

    lz4 takes half a second for 145 MiB; zstd would need 17 s for 90 MiB, and sqfstar 4.5 cannot be told a
    lower level.
    """
    sqfstar = ["sqfstar", "-comp", "lz4", "-root-mode", "755", "-quiet", "-no-progress", str(target)]
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", _PACK_AND_DRAIN, "sh", *sqfstar]


def apt_options(proxies: dict[str, str]) -> str:
    """apt.conf text for the build; `proxies` maps `Acquire::http::Proxy` and the like to the host's values."""
    lines = ['Acquire::Languages "none";', 'Acquire::Retries "3";', 'APT::Install-Recommends "false";']
    lines += [f'{key} "{value}";' for key, value in sorted(proxies.items())]
    return "\n".join(lines) + "\n"


def parse_proxies(dump: str) -> dict[str, str]:
    """Proxy settings among the output of `apt-config dump`."""
    proxies = {}
    for line in dump.splitlines():
        key, _, value = line.partition(" ")
        value = value.strip().rstrip(";").strip('"')
        if value and key.startswith(("Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::ftp::Proxy")):
            proxies[key] = value
    return proxies
