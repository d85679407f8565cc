"""The probes' key on the control machine: made once, renewed when told, never lost in silence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from anycastlab.node import keep, layout, operations, plan, probe_key, render, show
from anycastlab.node.errors import NodeError
from anycastlab.node.facts import NodeState
from anycastlab.node.removal import plan as plan_of_removal
from anycastlab.probe import seal
from tests.unit.node.homes import home

SITE = home()


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYCASTLAB_STATE", str(tmp_path / "state"))
    probe_key._renewed.clear()


def test_one_is_made_once_and_only_its_owner_reads_it() -> None:
    made = probe_key.for_site(SITE, create=True)
    assert made is not None
    assert probe_key.for_site(SITE, create=True) == made == probe_key.for_site(SITE, create=False)
    assert probe_key.key_file(SITE).stat().st_mode & 0o777 == 0o600
    assert [key.until for key in seal.parse(made)] == [None]


def test_a_dry_run_makes_none() -> None:
    assert probe_key.for_site(SITE, create=False) is None
    assert not probe_key.key_file(SITE).parent.exists()


def test_a_new_one_keeps_the_old_one_for_a_while_and_is_the_same_for_all_nodes_of_a_run() -> None:
    [old] = seal.parse(probe_key.for_site(SITE, create=True) or "")
    probe_key._renewed.clear()
    # A dry run, and the prepare phase, show that something changes and change nothing
    assert probe_key.for_site(SITE, create=False, renew=True) is None
    first = probe_key.for_site(SITE, create=True, renew=True)
    assert probe_key.for_site(SITE, create=True, renew=True) == first
    new, kept = seal.parse(first or "")
    assert new.secret != old.secret
    assert (kept.secret, new.until) == (old.secret, None)
    assert kept.until is not None
    assert 3000 < kept.until - time.time() <= 3600
    # And the next deploy, without the word, has nothing to change
    assert probe_key.for_site(SITE, create=True) == first


def test_many_renewals_leave_no_key_that_has_ended() -> None:
    probe_key.for_site(SITE, create=True)
    for _ in range(6):
        probe_key._renewed.clear()
        text = probe_key.for_site(SITE, create=True, renew=True) or ""
    assert len(seal.parse(text)) <= seal.MOST_KEYS
    ended = seal.dump((seal.parse(text)[0], seal.Key(b"e" * seal.KEY_BYTES, 1)))
    probe_key.key_file(SITE).write_text(ended, encoding="ascii")
    probe_key._renewed.clear()
    assert all(key.until != 1 for key in seal.parse(probe_key.for_site(SITE, create=True, renew=True) or ""))


@pytest.mark.parametrize("content", [b"", b"\n", b"[]", b"\xff\x00", b"0" * 63, b"0" * 5000])
@pytest.mark.parametrize("renew", [True, False])
def test_a_damaged_one_is_refused_and_stays(content: bytes, renew: bool) -> None:
    path = probe_key.key_file(SITE)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(NodeError, match=r"The probes' key .* is damaged: .*\."):
        probe_key.for_site(SITE, create=True, renew=renew)
    assert path.read_bytes() == content


def test_a_pipe_in_its_place_holds_nobody_up() -> None:
    path = probe_key.key_file(SITE)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(NodeError, match="is damaged: it is no regular file"):
        probe_key.for_site(SITE, create=True)


def test_a_folder_that_is_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(NodeError, match="The probes' key"):
        probe_key.for_site(SITE, create=True)


def test_on_a_node_only_the_probe_reads_it_no_plan_shows_it_and_a_removal_takes_it() -> None:
    node, text = SITE.nodes[0], probe_key.for_site(SITE, create=True) or ""
    made = render.files(SITE, node, render.Machine("n"), probe_key=text)
    [file] = [file for file in made if file.path == layout.PROBE_KEY]
    assert (file.owner, file.group, file.mode, file.secret, file.restarts) == (
        "anycastlab", "anycastlab", 0o400, True, (),
    )  # fmt: skip
    assert [f.path for f in made if text.split()[0].encode() in f.content] == [layout.PROBE_KEY]
    for old in ("", f"{'ab' * 32}\n"):
        shown = "\n".join(show.details(plan.Plan(files=(file,)), {layout.PROBE_KEY: old}))
        assert layout.PROBE_KEY in shown
        assert text.split()[0] not in shown
        assert "abab" not in shown
    paths = keep.paths(node, operations.render_names(SITE, node))
    state = NodeState(present=True, files={layout.PROBE_KEY: None})  # type: ignore[dict-item]
    assert layout.PROBE_KEY in plan_of_removal(state, keep.Record(), paths).delete
