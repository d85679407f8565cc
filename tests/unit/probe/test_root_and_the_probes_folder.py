"""Root's commands around the probe, with real links in the folder of the probe's user: they lead root nowhere."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from anycastlab import probe_control
from anycastlab.probe import units
from anycastlab.probe.config import ProbeConfig
from tests.unit import full_disk
from tests.unit.probe.world import config

CONFIG = config()
THE_PROBES = "/run/anycastlab"  # RuntimeDirectory= of its unit
PATHS = [value for value in vars(CONFIG).values() if isinstance(value, str) and value.startswith("/")]
# Whatever name root may use there: those in the configuration, and what is written beside them.
NAMES = sorted(
    {Path(path).name for path in PATHS if path.startswith(f"{THE_PROBES}/")}
    | {"resolver-stopping", "stopping", "probe.json.new", "anycastlab-resolver-stopping"}
)
PRECIOUS = "down, and root's own"


def roots_commands(settings: ProbeConfig) -> list[list[str]]:
    """What systemd runs as root for the resolver's stop and for a call for help, in order."""
    texts = [units.resolver_drop_in(settings)]
    texts += [text for path, text in units.units(settings, "unbound.service").items() if "escalate.service" in path]
    found = []
    for text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            key, _, command = line.partition("=")
            if key.startswith("Exec"):
                found.append(shlex.split(command.lstrip("+-").replace("$$", "$").replace("/bin/ip ", "ip ")))
    return found


def test_there_is_something_to_try() -> None:
    words = [word for command in roots_commands(CONFIG) for word in command]
    assert any(CONFIG.stopping_path in word for word in words)
    assert any(CONFIG.escalate_path in word for word in words)


@pytest.mark.parametrize("there", [True, False], ids=["a-file-of-roots", "a-file-that-is-not-there"])
def test_links_in_the_probes_folder_lead_root_nowhere(tmp_path: Path, there: bool) -> None:
    links = "; ".join(f"ln -s {tmp_path}/precious {tmp_path}/anycastlab/{name}" for name in NAMES)
    doubles = "; ".join(f"echo 'exit 0' >bin/{name}; chmod 755 bin/{name}" for name in ("ip", "systemctl"))
    precious = f"echo {shlex.quote(PRECIOUS)} >precious; touch -d @1000000000 precious"
    prepare = f"mkdir anycastlab bin; {links}; {doubles}; {precious if there else ':'}"
    run = [shlex.join(command) for command in [*roots_commands(CONFIG), ["sh", "-c", probe_control.READ_COMMAND]]]
    moved = "; ".join(run).replace("/run/anycastlab", f"{tmp_path}/anycastlab")
    looked = f"stat -c %Y,%a {tmp_path}/precious"
    script = f'export PATH="{tmp_path}/bin:$PATH" MAINPID=1; {{ {moved}; }} >/dev/null 2>&1; {looked}'

    done = full_disk.run(tmp_path, prepare, ["sh", "-c", script], "size=1m")

    files = [line for line in done.stdout.splitlines() if line.startswith("./") and not line.startswith("./bin/")]
    assert files == ([f"./precious: {PRECIOUS}"] if there else []), done.stdout
    assert ("1000000000," in done.stdout) is there, done.stdout
