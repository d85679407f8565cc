"""`scripts/merge-command-trees`: small dumps in, and the versions at which something came or went out."""

from __future__ import annotations

import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from anycastlab.command_trees.schema import Menu, Schema

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts/merge-command-trees"


def _script() -> Any:
    loader = SourceFileLoader("merge_command_trees", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look up annotations
    loader.exec_module(module)
    return module


script = _script()


def dump(version: str, **menus: dict[str, list[str]] | None) -> Any:
    """`ip_dns={"set": ["servers"]}` is the menu /ip/dns."""
    kept = {f"/{name.replace('_', '/')}": verbs for name, verbs in menus.items() if verbs is not None}
    return script.Dump(version, kept)


def merged(*dumps: Any, **options: Any) -> dict[str, Any]:
    tree = script.merge(dumps, **options)
    tree.pop("_source")
    return dict(tree)


# Ranges --------------------------------------------------------------------------------------------------------------


def test_what_all_dumps_have_has_no_range() -> None:
    same = {"set": ["servers", "vrf"], "print": []}
    assert merged(dump("7.16", ip_dns=same), dump("7.20", ip_dns=same)) == {
        "/ip/dns": {"print": "", "set": "servers vrf"}
    }


def test_what_comes_and_goes_has_the_first_dump_that_shows_it() -> None:
    tree = merged(
        dump("7.20", ip_dns={"set": ["b", "flap"]}),
        dump("7.16.2", ip_dns={"set": ["a", "b"]}),
        dump("7.22", ip_dns={"set": ["b"]}),
        dump("7.24", ip_dns={"set": ["b", "flap"]}),
    )
    assert tree == {"/ip/dns": {"set": "a@-7.20 b flap@7.20-7.22+7.24"}}


def test_below_something_new_nothing_is_marked_again() -> None:
    tree = merged(
        dump("7.16", ip_dns={"set": ["a"]}, safe_mode=None),
        dump("7.18", ip_dns={"set": ["a"], "reset": ["a"]}, safe_mode={"take": ["on-error"]}),
        dump("7.20", ip_dns={"set": ["a"], "reset": ["a", "b"]}, safe_mode={"take": ["on-error"]}),
    )
    assert tree == {
        "/ip/dns": {"reset@7.18": "a b@7.20", "set": "a"},
        "/safe/mode@7.18": {"take": "on-error"},
    }


def test_a_verb_without_arguments_that_gets_some() -> None:
    tree = merged(dump("7.16", ip_dns={"setup": []}), dump("7.20", ip_dns={"setup": ["now"]}))
    assert tree == {"/ip/dns": {"setup": "now@7.20"}}


def test_a_history_dates_changes_between_dumps_and_those_that_no_dump_shows() -> None:
    history = {
        "/ip/dns": [
            {"version": "7.21.2", "added": ["x"], "removed": []},
            {"version": "7.17", "added": ["x", "reset()"], "removed": ["old"]},
            {"version": "7.21", "added": [], "removed": ["x"]},
        ],
        "/safe/mode": [{"version": "7.18", "added": ["take()"], "removed": []}],
    }
    tree = merged(
        dump("7.16", ip_dns={"set": ["old"], "print": ["y"]}),
        dump("7.20", ip_dns={"set": ["x"], "reset": ["x"], "print": ["y"]}, safe_mode={"take": []}),
        dump("7.22", ip_dns={"set": ["x"], "reset": ["x"], "print": ["y"]}, safe_mode={"take": []}),
        history=history,
    )
    assert tree == {
        "/ip/dns": {"print": "y", "reset@7.17": "x@-7.21+7.21.2", "set": "old@-7.17 x@7.17-7.21+7.21.2"},
        "/safe/mode@7.18": {"take": ""},
    }


def test_a_newer_dump_is_merged_onto_the_tree_that_is_there() -> None:
    first, second, third = (
        dump("7.16", ip_dns={"set": ["a", "b"]}),
        dump("7.20", ip_dns={"set": ["b", "c"]}),
        dump("7.25", ip_dns={"set": ["a", "b"]}, safe_mode={"take": []}),
    )
    onto = script.merge([first, second])
    onto["_source"] = onto["_source"].replace("7.9 to 7.24", "7.9 to 7.99")
    tree = script.merge([third], onto=onto)
    assert tree == {**script.merge([first, second, third]), "_source": tree["_source"]}
    assert script.merged_versions(tree) == ["7.16", "7.20", "7.25"]
    assert "7.9 to 7.99" in tree["_source"]
    with pytest.raises(script.MergeError, match=r"7\.20 is not newer than 7\.25"):
        script.merge([second], onto=tree)


# Dumps ---------------------------------------------------------------------------------------------------------------

PUBLISHED = {
    "_meta": {"version": "unknown"},
    "beep": {"_type": "cmd", "length": {"_type": "arg", "desc": "time interval"}},
    "ip": {
        "_type": "dir",
        "dns": {
            "_type": "path",
            "set": {
                "_type": "cmd",
                "servers": {"_type": "arg"},
                "set": {"_type": "arg", "desc": "a|b[,Some*]", "_completion": {"a": {}, "b": {}}},
            },
            "edit": {"_type": "cmd", "value-name": {"_type": "arg"}},
            "cache": {"_type": "dir", "flush": {"_type": "cmd"}},
        },
    },
}


@pytest.mark.parametrize("name", ["inspect-7.25beta2.json", "7.25beta2/inspect.json"])
def test_a_dump_as_it_is_published(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(PUBLISHED))
    read = script.read_dump(path)
    assert read.version == "7.25beta2"
    assert merged(read, menus=["/ip/dns", "/ip/dns/cache", "/tool"]) == {
        "/ip/dns": {"set": "servers set"},
        "/ip/dns/cache": {"flush": ""},
    }
    assert script.values(read)["/ip/dns"] == {"set": {"set": "set a b"}}


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_what_is_no_dump_is_one_sentence(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    path.write_text(content)
    assert script.main(["--afresh", "--out", str(tmp_path), str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "tree.json").exists()


# Values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "known", "kind"),
    [
        ("as", {"type": "0..4294967295"}, "int 0..4294967295"),
        ("hold-time", {"type": "3s..18h    (time interval)", "values": ["infinity"]}, "time 3s..18h infinity"),
        ("timeout", {"type": "time interval"}, "time .."),
        ("key", {"type": "string value, max length 80"}, "text 80"),
        ("cluster-id", {"type": "A.B.C.D    (IP address)"}, "ip"),
        ("afi", {"type": "ip|ipv6[,Afi*]", "values": ["ip"]}, "set ip ipv6"),
        ("connect", {"values": ["no", "yes"]}, "bool"),
        ("authoritative", {"values": ["after-2sec-delay", "no", "yes"]}, "enum after-2sec-delay no yes"),
        ("in-interface", {"values": ["!", "ether1", "all-ppp"]}, "!open ether1 all-ppp"),
        ("tcp-flags", {"values": ["!,", "!", "ack", "syn"]}, "!set ack syn"),
        ("templates", {"values": ["default", ","]}, "open default"),
        ("copy-from", {"values": ["admin"]}, None),
        ("servers", {}, None),
    ],
)
def test_the_kind_of_a_value(name: str, known: dict[str, Any], kind: str | None) -> None:
    assert script.kind_of(name, known) == kind


# The files that are there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tree", "values"])
def test_the_present_files_are_written_as_the_script_writes(name: str) -> None:
    path = script.TREES / f"{name}.json"
    assert script.text_of(json.loads(path.read_text(encoding="utf-8"))) == path.read_text(encoding="utf-8")


def test_the_present_tree_takes_a_newer_version(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_bytes((script.TREES / "tree.json").read_bytes())
    newest = Schema.load("7.24")
    flat: dict[str, Any] = {"_source": {"version": "7.25"}}
    for path in json.loads((tmp_path / "tree.json").read_text(encoding="utf-8")):
        menu = newest.menu(path.partition("@")[0])
        if menu is not None:
            flat[menu.path] = _as_dumped(menu)
    flat["/ip/dns"]["set"].append("invented")
    del flat["/safe-mode"]
    new = tmp_path / "new.json"
    new.write_text(json.dumps(flat), encoding="utf-8")
    before = (tmp_path / "tree.json").read_text(encoding="utf-8").splitlines()
    assert script.main(["--out", str(tmp_path), str(new)]) == 0
    after = (tmp_path / "tree.json").read_text(encoding="utf-8").splitlines()
    assert [line for line in after if line not in before][1:] == [
        next(line for line in after if "invented@7.25" in line),
        '"/safe-mode@7.18-7.25": {',
    ]
    assert "7.24, 7.25 (Unlicense)" in after[1]


def _as_dumped(menu: Menu) -> dict[str, list[str]]:
    return {verb: sorted(arguments) for verb, arguments in menu.verbs.items()}
