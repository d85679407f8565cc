"""An inventory of the lab says one line per machine, and what cannot be right is a sentence."""

from __future__ import annotations

import pytest

from anycastlab.incus.spec import Lab
from anycastlab.lab import machines as lab
from anycastlab.lab.machines import LabDataError


def test_one_line_is_one_node() -> None:
    made = dict(lab.nodes("node01", lab.node("node10", resolver="unbound")))
    assert made["@incus/node01"]["number"] == 1
    assert made["@incus/node10"]["number"] == 10
    assert made["@incus/node10"]["resolver"] == "unbound"


def test_a_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(LabDataError, match="names node02 twice"):
        lab.nodes("node01", "node02", "node02")


def test_a_number_without_an_address_is_refused() -> None:
    with pytest.raises(LabDataError, match="node00: its number must be 1 to 64"):
        lab.nodes("node00")


def test_a_lab_of_another_name_shares_nothing_with_the_default_one() -> None:
    default, other = Lab("lab"), Lab("test")
    assert default.project == "anycastlab"
    assert other.project == "anycastlab-test"
    assert not set(default.bridges) & set(other.bridges)
    assert {default.api_port, default.api_port + 1}.isdisjoint({other.api_port, other.api_port + 1})


@pytest.mark.parametrize("name", ["Lab", "1st", "a-b", "toolongname", ""])
def test_a_lab_name_that_bridges_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lab name"):
        Lab(name)


def test_the_environment_chooses_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYCASTLAB_LAB", "test")
    assert dict(lab.machines("node01"))["@incus/node01"]["incus_project"] == "anycastlab-test"
    monkeypatch.setenv("ANYCASTLAB_LAB", "Not A Name")
    with pytest.raises(LabDataError, match="ANYCASTLAB_LAB is wrong"):
        lab.machines("node01")
