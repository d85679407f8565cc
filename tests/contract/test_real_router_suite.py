"""The tests for real routers (`tests/real`) do what they say: run here against the virtual router.

Each passes on every kind of version, the whole command works from the outside, and the guard around them notices what
a test must not do.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anycastlab.routeros.connection import Target
from anycastlab.virtual_router.testing import PASSWORD, RunningRouter, running_router
from tests.real import test_router
from tests.real.borrowed import Loan, UnusableError, agreed, borrowed, introduction, target

ROOT = Path(__file__).parents[2]
SUITE = [function for name, function in vars(test_router).items() if name.startswith("test_")]
# Before safe mode, before BGP instances became separate, and with all of it.
VERSIONS = ["7.16.2", "7.20.8 (long-term)", "7.22.3"]

# A router that is somebody's: rows in the menus concerned, some of them much like ours.
HOME = {
    "/ip/firewall/filter": (
        {"chain": "input", "action": "accept", "connection-state": "established,related"},
        {"chain": "input", "action": "accept", "protocol": "tcp", "dst-port": "179", "src-address": "192.0.2.1"},
        {"chain": "input", "action": "drop", "comment": "Rest ☕"},
    ),
    "/ip/firewall/nat": ({"chain": "srcnat", "action": "masquerade", "out-interface": "ether1-wan"},),
    "/tool/netwatch": ({"host": "192.0.2.77", "type": "icmp", "comment": "anycastlab is not mine"},),
}


def where(router: RunningRouter) -> Target:
    return Target(router.host, router.port, "automation", PASSWORD, tls=False)


def lend(router: RunningRouter, use: Callable[[Loan], object], state: Path) -> None:
    with borrowed(where(router), state) as loan:
        use(loan)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("function", SUITE, ids=lambda function: function.__name__.removeprefix("test_"))
def test_each_passes_and_gives_the_router_back(version: str, function: Callable[[Loan], None], tmp_path: Path) -> None:
    with running_router(version=version, rows=HOME) as router:
        before = {menu: router.rows(menu) for menu in HOME}
        lend(router, function, tmp_path)
        assert {menu: router.rows(menu) for menu in HOME} == before
        assert router.rows("/routing/bgp/connection") == []
        assert router.rows("/ip/settings")[0].get("ipv4-multipath-hash-policy", "l3") == "l3"
        assert not [write for write in router.writes() if "allow-remote-requests" in str(write)]


def test_a_test_that_touched_a_foreign_row_is_caught(tmp_path: Path) -> None:
    def touching(loan: Loan) -> None:
        loan.deploy()
        drop = next(row for row in loan.read().menus["/ip/firewall/filter"] if row.get("comment") == "Rest ☕")
        loan.connection.set("/ip/firewall/filter", drop[".id"], {"comment": "gone"})

    with (
        running_router(rows=HOME) as router,
        pytest.raises(AssertionError, match=r"/ip/firewall/filter of router .* not as before"),
    ):
        lend(router, touching, tmp_path)


def test_rows_of_a_failed_test_are_removed_all_the_same(tmp_path: Path) -> None:
    def failing(loan: Loan) -> None:
        loan.deploy()
        raise ZeroDivisionError

    with running_router(rows=HOME) as router:
        with pytest.raises(ZeroDivisionError):
            lend(router, failing, tmp_path)
        assert router.rows("/routing/bgp/connection") == []
        assert len(router.rows("/ip/firewall/filter")) == len(HOME["/ip/firewall/filter"])


def test_a_router_in_use_is_refused_untouched(tmp_path: Path) -> None:
    ours = {"/ip/firewall/nat": ({"chain": "dstnat", "action": "redirect", "comment": "anycastlab:redirect:udp"},)}
    with running_router(rows=ours) as router:
        with pytest.raises(UnusableError, match=r"1 rows of anycastlab's already.*/ip/firewall/nat"):
            lend(router, lambda _: pytest.fail("it was lent"), tmp_path)
        assert router.writes() == []
        assert len(router.rows("/ip/firewall/nat")) == 1


# From outside --------------------------------------------------------------------------------------------------------


def command(router: RunningRouter) -> tuple[list[str], dict[str, str]]:
    named = f"automation:{PASSWORD}@{router.host}:{router.port}"
    environment = {**os.environ, "ANYCASTLAB_ROUTER": named, "ANYCASTLAB_ROUTER_TLS": "0"}
    recipe = re.search(r"^test-router:.*\n(?:\t.*\n)*?\t\$\(BIN\)/(pytest .*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe
    return [sys.executable, "-m", *recipe[1].split(), "-p", "no:cacheprovider"], environment


def test_the_make_targets_command_runs_the_whole_suite() -> None:
    with running_router(rows=HOME) as router:
        argv, environment = command(router)
        run = subprocess.run(
            argv,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            start_new_session=True,  # no terminal, nobody to ask
        )
        assert run.returncode == 0, run.stdout
        assert f"{len(SUITE)} passed" in run.stdout
        assert PASSWORD not in run.stdout + run.stderr
        assert router.rows("/routing/bgp/connection") == []


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_a_person_at_a_terminal_is_told_and_asked(answer: str, code: int) -> None:
    with running_router(rows=HOME) as router:
        argv, environment = command(router)
        # script(1) gives the command a terminal of its own and hands our answer over as if it were typed there.
        at_a_terminal = ["script", "-qec", shlex.join([*argv, "-k", "removal"]), "/dev/null"]
        run = subprocess.run(
            at_a_terminal,
            cwd=ROOT,
            env=environment,
            input=answer,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == code, run.stdout
        told, _, rest = run.stdout.partition("Go on? [y/N] ")
        assert "RouterOS 7.22.3" in told
        assert ("Nothing was changed." in rest) == (code != 0), run.stdout
        assert bool(router.writes()) == (code == 0)


def test_without_a_router_nothing_is_collected() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ANYCASTLAB_ROUTER"}
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/real", "-p", "no:cacheprovider"]
    run = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert "no tests collected" in run.stdout, run.stdout


# Words ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ANYCASTLAB_ROUTER": "admin:x@192.0.2.1"}, Target("192.0.2.1", 8729, "admin", "x")),
        ({"ANYCASTLAB_ROUTER": "admin:@router.lan:8728"}, Target("router.lan", 8728, "admin", "", tls=False)),
        ({"ANYCASTLAB_ROUTER": "a:p:w@[fe80::1%lan]:99"}, Target("fe80::1%lan", 99, "a", "p:w")),
        (
            {"ANYCASTLAB_ROUTER": "a:p@ss@chr", "ANYCASTLAB_ROUTER_TLS": "0"},
            Target("chr", 8728, "a", "p@ss", tls=False),
        ),
        (
            {"ANYCASTLAB_ROUTER": "a:b@chr:8728", "ANYCASTLAB_ROUTER_TLS": "1", "ANYCASTLAB_ROUTER_FINGERPRINT": "ab"},
            Target("chr", 8728, "a", "b", fingerprint="ab"),
        ),
    ],
)
def test_a_router_is_named_in_one_variable(settings: dict[str, str], expected: Target) -> None:
    assert target(settings) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ANYCASTLAB_ROUTER": "192.0.2.1"},
        {"ANYCASTLAB_ROUTER": "admin@192.0.2.1"},
        {"ANYCASTLAB_ROUTER": "admin:x@"},
        {"ANYCASTLAB_ROUTER": "admin:x@host:port"},
        {"ANYCASTLAB_ROUTER": "admin:x@192.0.2.1", "ANYCASTLAB_ROUTER_TLS": "no"},
    ],
)
def test_a_name_that_is_none_is_refused_without_the_password(settings: dict[str, str]) -> None:
    with pytest.raises(UnusableError) as caught:
        target(settings)
    assert ":x@" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("no", False)]
)
def test_only_a_yes_is_a_yes(typed: str, goes_on: bool, tmp_path: Path) -> None:
    with running_router(rows=HOME) as router, borrowed(where(router), tmp_path) as loan:
        text = introduction(loan.before)
    terminal = io.StringIO()
    assert agreed(text, terminal, io.StringIO(typed)) is goes_on
    assert terminal.getvalue().endswith("[y/N] ")
    assert "5 rows of its own" in terminal.getvalue()
