"""A lab comes up without AdGuard Home; a real home is never given another resolver in silence."""

from __future__ import annotations

from pathlib import Path

from anycastlab.node import lockfile
from anycastlab.node.resolver_choice import resolver_of
from tests.unit.node.homes import home
from tests.unit.node.test_resolver_binary import World

VERSION = lockfile.packaged().version


def test_where_nothing_works_the_lab_runs_unbound_and_says_why(tmp_path: Path) -> None:
    site = home()
    node, line = resolver_of(site, site.nodes[0], "auto", World().tools(), tmp_path)
    assert node.resolver == "unbound"
    assert line.startswith(f"AdGuard Home {VERSION} cannot be had here (Go is not installed; https://")
    assert line.endswith("; node01 runs unbound.")


def test_where_it_can_be_built_it_stays() -> None:
    site = home()
    world = World(go="1.26.6")
    world.run = lambda argv, **_: _answer(argv)  # type: ignore[method-assign, assignment]
    assert resolver_of(site, site.nodes[0], "auto", world.tools(), Path("/nonexistent")) == (site.nodes[0], "")


def test_a_real_home_and_a_named_source_are_left_alone(tmp_path: Path) -> None:
    site = home()
    real = site.model_copy(update={"lab": None})
    assert resolver_of(real, site.nodes[0], "auto", World().tools(), tmp_path)[0].resolver == "adguardhome"
    assert resolver_of(site, site.nodes[0], "module", World().tools(), tmp_path)[0].resolver == "adguardhome"


def _answer(argv: object) -> object:
    import subprocess

    return subprocess.CompletedProcess(list(argv), 0, "go1.26.6\n", "")  # type: ignore[call-overload]
