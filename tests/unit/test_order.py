"""The order in which test files begin names files that there are."""

from __future__ import annotations

from tests import order


def test_every_named_file_is_there() -> None:
    assert [path for path in order.LONG if not path.is_file()] == []
    assert [path for path in order.SHARED_LAB if not (order.TESTS.parent / path).is_file()] == []


def test_long_files_come_first_and_what_only_computes_last() -> None:
    files = ["unit/test_order.py", "contract/test_pylxd.py", "lab/test_image.py", "lab/test_deploy.py"]
    assert sorted((order.TESTS / file for file in files), key=order.place) == [
        order.TESTS / file for file in reversed(files)
    ]


def test_files_that_share_a_lab_have_one_scope_and_others_their_own() -> None:
    assert len({order.scope(file) for file in order.SHARED_LAB}) == 1
    assert order.scope("tests/lab/test_deploy.py") == "tests/lab/test_deploy.py"
