"""AdGuard Home's file is compared by meaning, and a person's own settings survive a merge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycastlab.node import adguard_yaml
from anycastlab.node.adguard_yaml import RULES_BEGIN, RULES_END, Document, Passwords, differences, merge
from anycastlab.node.errors import ResolverError

# "Hashing" that can be read: the hash of `secret` is `#secret`.
PASSWORDS = Passwords(matches=lambda plain, hashed: hashed == f"#{plain}", new_hash=lambda plain: f"#{plain}")
WANTED: Document = {
    "http": {"address": "10.1.2.11:3000"},
    "users": [{"name": "admin", "password": "secret"}],
    "dns": {
        "bind_hosts": ["0.0.0.0"],
        "upstream_timeout": "2000ms",
        "ratelimit": 0,
        "cache_optimistic_max_age": "43200s",
    },
    "filters": [],
    "user_rules": ["|id.anycast.lan^$dnsrewrite=NOERROR;TXT;node01"],
    "querylog": {"ignored": ["||probe.anycast.lan^"], "ignored_enabled": True},
    "tls": {"enabled": False},
    "schema_version": 34,
}


def as_rewritten() -> Document:
    """WANTED after AdGuard Home's own rewrite: other spellings of durations, defaults filled in, other order."""
    return {
        "schema_version": 34,
        "tls": {"enabled": False, "port_https": 443},
        "user_rules": [RULES_BEGIN, *WANTED["user_rules"], RULES_END],
        "querylog": {
            "ignored": [RULES_BEGIN, "||probe.anycast.lan^", RULES_END],
            "ignored_enabled": True,
            "interval": "2160h",
        },
        "filters": [],
        "dns": {
            "ratelimit": 0,
            "cache_optimistic_max_age": "12h",
            "upstream_timeout": "2s",
            "bind_hosts": ["0.0.0.0"],
            "anonymize_client_ip": False,
        },
        "users": [{"name": "admin", "password": "#secret"}],
        "http": {"address": "10.1.2.11:3000", "session_ttl": "30d"},
    }


def test_a_rewritten_file_does_not_differ() -> None:
    assert differences(as_rewritten(), WANTED, PASSWORDS) == []


@pytest.mark.parametrize(
    ("section", "key", "value", "shown"),
    [
        ("dns", "ratelimit", 20, "dns.ratelimit: 20 -> 0"),
        ("dns", "upstream_timeout", "10s", "dns.upstream_timeout: 10s -> 2000ms"),
        ("dns", "bind_hosts", ["10.1.9.53"], "dns.bind_hosts: [-10.1.9.53, +0.0.0.0]"),
        ("tls", "enabled", 0, "tls.enabled: 0 -> false"),
        ("querylog", "ignored_enabled", False, "querylog.ignored_enabled: false -> true"),
        ("querylog", "ignored", ["hers.example"], "querylog.ignored: [+||probe.anycast.lan^]"),
    ],
)
def test_a_changed_leaf_differs(section: str, key: str, value: Any, shown: str) -> None:
    actual = as_rewritten()
    actual[section][key] = value
    assert [d.show() for d in differences(actual, WANTED, PASSWORDS)] == [shown]


def test_another_password_differs_and_is_not_shown() -> None:
    actual = as_rewritten()
    actual["users"][0]["password"] = "#other"
    [found] = differences(actual, WANTED, PASSWORDS)
    assert found.show() == "users.admin.password: (differs)"


def test_a_file_without_users_would_have_no_authentication() -> None:
    actual = as_rewritten()
    del actual["users"]
    assert "users.admin.password: (differs)" in [d.show() for d in differences(actual, WANTED, PASSWORDS)]


def test_a_merge_keeps_what_a_person_set() -> None:
    # given a file in which somebody added a user, a filter, rules of their own and a setting we do not manage
    actual = as_rewritten()
    actual["users"].append({"name": "eve", "password": "#hers"})
    actual["filters"] = [{"url": "https://lists.example/1.txt", "enabled": True}]
    actual["user_rules"] = ["||before.example^", *actual["user_rules"], "||after.example^"]
    actual["querylog"]["ignored"] = ["before.example", *actual["querylog"]["ignored"], "after.example"]
    actual["dns"]["anonymize_client_ip"] = True
    actual["dns"]["ratelimit"] = 20
    # when our settings are merged in
    merged = merge(actual, WANTED, PASSWORDS)
    # then only ours changed
    assert merged["dns"] == {**actual["dns"], "ratelimit": 0}
    assert {user["name"] for user in merged["users"]} == {"admin", "eve"}
    assert merged["filters"] == actual["filters"]
    assert merged["user_rules"] == actual["user_rules"]
    assert merged["querylog"] == actual["querylog"]
    assert differences(merged, WANTED, PASSWORDS) == []


def test_a_new_file_holds_hashes_only() -> None:
    merged = merge({}, WANTED, PASSWORDS)
    assert merged["users"] == [{"name": "admin", "password": "#secret"}]


def test_our_rules_are_replaced_not_piled_up() -> None:
    actual = merge({}, WANTED, PASSWORDS)
    other = {**WANTED, "user_rules": ["||new.example^"]}
    assert merge(actual, other, PASSWORDS)["user_rules"] == [RULES_BEGIN, "||new.example^", RULES_END]


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(ResolverError) as caught:
        merge({"schema_version": 35}, WANTED, PASSWORDS)
    assert caught.value.problem == ("The node's AdGuard Home file has schema 35; the pinned version reads up to 34.")


@pytest.mark.parametrize("text", ["a: [", "- 1", ""])
def test_what_is_no_such_file_is_one_sentence(text: str) -> None:
    with pytest.raises(ResolverError):
        adguard_yaml.parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("720h", 2592000), ("30d", 2592000), ("1m30s", 90), ("2000ms", 2), ("1h0m0.5s", 3600.5), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert adguard_yaml.duration_s(text) == seconds


@pytest.mark.parametrize("value", ["", "5", "10.1.1.1", "s", "1 h", 5, None, ["1s"]])
def test_what_is_no_duration(value: Any) -> None:
    assert adguard_yaml.duration_s(value) is None


_LEAVES = st.one_of(st.booleans(), st.integers(0, 9), st.sampled_from(["1h", "60m", "x", "10.1.1.1"]))
_DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "dns": st.dictionaries(st.sampled_from(["a", "b", "ratelimit", "bind_hosts"]), _LEAVES),
        "users": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["admin", "eve"]), "password": st.just("#p")}), max_size=2
        ),
        "user_rules": st.lists(st.sampled_from(["||a^", "||b^", RULES_BEGIN, RULES_END]), max_size=5),
        "other": _LEAVES,
    },
)


@given(_DOCUMENTS)
def test_after_a_merge_nothing_differs_and_a_second_one_changes_nothing(actual: Document) -> None:
    once = merge(actual, WANTED, PASSWORDS)
    assert differences(once, WANTED, PASSWORDS) == []
    assert merge(once, WANTED, PASSWORDS) == once
    assert once.get("other") == actual.get("other")
