"""AdGuard Home's file as it is and as it must be: what differs in the managed leaves, and the two merged.

AdGuard Home rewrites its file at every start: other order, defaults filled in, `720h` as `30d`. And people set things
in its web page. So the text says nothing; only the leaves that we manage are compared, by meaning, and a new file is
the present one with those leaves changed. Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from anycastlab.node.errors import ResolverError

Document = dict[str, Any]


@dataclass(frozen=True)
class Passwords:
    """How plain passwords of `wanted` meet hashes of `actual`."""

    matches: Callable[[str, str], bool]  # (plain, hash)
    new_hash: Callable[[str], str]


# Lists of filter rules that a person edits as text in the web page.
_RULES: Final = frozenset({("user_rules",), ("querylog", "ignored"), ("statistics", "ignored")})
# Rules between these two comments are ours; rules outside are a person's and stay.
RULES_BEGIN: Final = "! anycastlab: begin"
RULES_END: Final = "! anycastlab: end"

# Lists of objects that are matched by one property: entries of ours must be there, others may be.
_KEYED: Final[dict[tuple[str, ...], str]] = {
    ("users",): "name",
    ("filters",): "url",
    ("whitelist_filters",): "url",
    ("clients", "persistent"): "name",
}
_SETS: Final = frozenset({"ids", "tags"})  # order means nothing
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:d|h|ms|us|µs|ns|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|us|µs|ns|m|s)")
_SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Difference:
    """One managed leaf that is not as it must be. Secrets are masked in `show`."""

    path: tuple[str, ...]
    actual: Any
    wanted: Any

    def show(self) -> str:
        name = ".".join(self.path)
        if self.path[-1] == "password":
            return f"{name}: (differs)"
        if isinstance(self.actual, list) and isinstance(self.wanted, list):
            gone = [f"-{entry}" for entry in self.actual if entry not in self.wanted]
            come = [f"+{entry}" for entry in self.wanted if entry not in self.actual]
            return f"{name}: {_brief([*gone, *come]) if gone or come else 'order'}"
        return f"{name}: {_brief(self.actual)} -> {_brief(self.wanted)}"


def parse(text: str) -> Document:
    """Read a file of AdGuard Home's; raises ResolverError if it is not one."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise ResolverError(f"The AdGuard Home file is not YAML: {reason}.", "Restore or delete it.") from None
    if not isinstance(document, dict):
        raise ResolverError("The AdGuard Home file holds no settings.", "Restore or delete it.")
    return document


def schema(document: Document) -> int | None:
    """The schema a file says it has, 0 where it says none (as AdGuard Home reads it); None for a file without settings.

    Raises ResolverError for what is no number.
    """
    if not document:
        return None
    found = document.get("schema_version") or 0
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ResolverError(
            f"The node's AdGuard Home file says schema_version: {_brief(found)}, which is no schema.",
            "Write the number that its own AdGuard Home wrote there, or delete the file to start afresh.",
        )
    return found


def differences(actual: Document, wanted: Document, password: Passwords) -> list[Difference]:
    """Managed leaves of `actual` that differ from `wanted`, in the order of `wanted`."""
    found: list[Difference] = []
    _compare((), actual, wanted, password, found)
    return found


def merge(actual: Document, wanted: Document, password: Passwords) -> Document:
    """`actual` with every managed leaf as in `wanted`; what `wanted` does not name stays as it is.

    `wanted` has plain passwords, the result hashes; one that already belongs to its password is kept. Raises
    ResolverError for a file of a newer schema, which this version of AdGuard Home would not read.
    """
    have, want = schema(actual), wanted["schema_version"]
    if have is not None and have > want:
        raise ResolverError(
            f"The node's AdGuard Home file has schema {have}; the pinned version reads up to {want}.",
            "Use a newer anycastlab, or delete that file to start afresh.",
        )
    merged: Document = _merge((), actual, wanted, password)
    return merged


def dump(document: Document) -> str:
    """The file's text."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)


def duration_s(value: Any) -> float | None:
    """Seconds of a duration such as `1m30s` or `30d`; None for anything else."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    return round(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value)), 9)


def _same(path: tuple[str, ...], actual: Any, wanted: Any) -> bool:
    if path[-1] in _SETS and isinstance(actual, list) and isinstance(wanted, list):
        return set(map(str, actual)) == set(map(str, wanted))
    if isinstance(actual, bool) != isinstance(wanted, bool):
        return False
    if (left := duration_s(actual)) is not None and (right := duration_s(wanted)) is not None:
        return left == right
    return bool(actual == wanted)


def _compare(path: tuple[str, ...], actual: Any, wanted: Any, password: Passwords, found: list[Difference]) -> None:
    if isinstance(wanted, Mapping):
        present = actual if isinstance(actual, Mapping) else {}
        for key, value in wanted.items():
            _compare((*path, str(key)), present.get(key), value, password, found)
        return
    if path in _KEYED:
        key = _KEYED[path]
        by_key = _by_key(actual, key)
        for entry in wanted:
            _compare((*path, str(entry[key])), by_key.get(entry[key]), entry, password, found)
        if not wanted and actual is None:
            found.append(Difference(path, None, []))
        return
    if path in _RULES:
        ours = _our_rules(actual)
        if ours != list(wanted):
            found.append(Difference(path, ours, list(wanted)))
        return
    if path[-1] == "password":
        if not (isinstance(actual, str) and password.matches(str(wanted), actual)):
            found.append(Difference(path, actual, wanted))
        return
    if not _same(path, actual, wanted):
        found.append(Difference(path, actual, wanted))


def _merge(path: tuple[str, ...], actual: Any, wanted: Any, password: Passwords) -> Any:
    if isinstance(wanted, Mapping):
        present = dict(actual) if isinstance(actual, Mapping) else {}
        merged = {key: _merge((*path, str(key)), present.get(key), value, password) for key, value in wanted.items()}
        return {**copy.deepcopy(present), **merged}
    if path in _KEYED:
        key = _KEYED[path]
        by_key = _by_key(actual, key)
        names = {entry[key] for entry in wanted}
        ours = [_merge((*path, str(entry[key])), by_key.get(entry[key]), entry, password) for entry in wanted]
        return [*ours, *(copy.deepcopy(entry) for name, entry in by_key.items() if name not in names)]
    if path in _RULES:
        before, after = _foreign_rules(actual)
        return [*before, RULES_BEGIN, *wanted, RULES_END, *after]
    if path[-1] == "password":
        return (
            actual if isinstance(actual, str) and password.matches(str(wanted), actual) else password.new_hash(wanted)
        )
    return actual if actual is not None and _same(path, actual, wanted) else copy.deepcopy(wanted)


def _by_key(entries: Any, key: str) -> dict[Any, Any]:
    return {entry.get(key): entry for entry in entries or [] if isinstance(entry, Mapping)}


def _our_rules(rules: Any) -> list[str]:
    return _split_rules(rules)[1]


def _foreign_rules(rules: Any) -> tuple[list[str], list[str]]:
    before, _, after = _split_rules(rules)
    return before, after


def _split_rules(rules: Any) -> tuple[list[str], list[str], list[str]]:
    """Rules before our block, in it, and after it. A comment of ours without its partner is left out."""
    lines = [str(rule) for rule in rules or []]
    begin = lines.index(RULES_BEGIN) if RULES_BEGIN in lines else -1
    end = lines.index(RULES_END, begin + 1) if begin >= 0 and RULES_END in lines[begin + 1 :] else -1
    if end < 0:
        return [line for line in lines if line not in (RULES_BEGIN, RULES_END)], [], []
    stray = (RULES_BEGIN, RULES_END)
    before = [line for line in lines[:begin] if line not in stray]
    ours = [line for line in lines[begin + 1 : end] if line not in stray]
    return before, ours, [line for line in lines[end + 1 :] if line not in stray]


def _brief(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).strip()
    text = text.removesuffix("\n...").strip()
    return text if len(text) <= 100 else f"{text[:97]}…"
