"""The probe's configuration file: what goes in comes out, and what cannot work is refused in one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anycastlab.probe.config import ConfigError, from_json, to_json
from tests.unit.probe.world import config


def changed(path: str, value: Any) -> str:
    raw = json.loads(to_json(config()))
    *parents, last = path.split(".")
    inner = raw
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return json.dumps(raw)


def test_there_and_back() -> None:
    assert from_json(to_json(config())) == config()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("node", "Node 1", "node 'Node 1' is not a host name"),
        ("address", "10.1.2", "address '10.1.2' is not an IP address"),
        ("service_addresses", [], "service_addresses is empty"),
        ("service_addresses", ["10.1.2.11"], "also a service address"),
        ("service_addresses", "10.1.9.53", "must be a list"),
        ("link", "a/b", "link 'a/b' is not an interface name"),
        ("identity_name", "id.lan.", "without final dot"),
        ("frr.neighbors", [], "frr.neighbors is empty"),
        ("frr.asn", 0, "frr.asn is 0"),
        ("questions.local.timeout_s", 0.5, "between 0.01 and 0.3"),
        ("questions.local.rise", 0, "questions.local.rise is 0"),
        ("questions.local.rise", 1.5, "must be a int"),
        ("questions.resolver.interval_s", True, "must be a float"),
        ("questions.resolver.interval_s", float("nan"), "interval_s is nan"),
        ("guard.promise_s", 0.6, "guard.promise_s is 0.6"),
        ("hold_down.max_s", 0.5, "hold_down.max_s is 0.5"),
        ("latency.clear_s", 1.0, "latency.clear_s is 1"),
        ("state_path", "probe.json", "not an absolute path"),
        ("resolver_cgroup", "/etc", "resolver_cgroup '/etc' is not a path within the cgroup tree"),
        ("metrics_prot", 1, "metrics_prot is not a setting"),
        ("frr.colour", 1, "frr.colour is not a setting"),
        ("peers", [{"name": "node01", "address": "10.1.2.12"}], "a node is no peer of itself"),
        ("peers", [{"name": "node02"}], "peers.address is missing"),
    ],
)
def test_what_cannot_work_is_refused(path: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_json(changed(path, value))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_no_object_is_no_configuration(text: str) -> None:
    with pytest.raises(ConfigError):
        from_json(text)
