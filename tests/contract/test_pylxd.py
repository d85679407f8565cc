"""What we rely on in pylxd, against the real Incus daemon, and why we do some things ourselves."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pylxd
import pylxd.exceptions
import pytest
from pylxd.client import _UnixAdapter

from anycastlab.incus.remotes import local_server
from anycastlab.incus.rest import Rest, connect


@pytest.fixture(scope="module")
def rest() -> Rest:
    return connect(local_server())


def test_nodes_reach_any_path_of_the_api(rest: Rest) -> None:
    assert rest.client.api["networks"]["lo"].get().json()["metadata"]["name"] == "lo"


def test_the_client_speaks_to_incus_and_is_trusted_on_the_socket(rest: Rest) -> None:
    assert rest.client.trusted
    assert rest.info["environment"]["server"] == "incus"
    assert rest.client.has_api_extension("projects")


def test_a_missing_thing_is_not_found_with_the_servers_words(rest: Rest) -> None:
    with pytest.raises(pylxd.exceptions.NotFound, match="Instance not found"):
        rest.client.api["instances"]["nobody"].get()


def test_a_client_can_be_made_for_a_project_that_does_not_exist_yet() -> None:
    nowhere = Rest(local_server(), f"none-{uuid.uuid4().hex[:8]}")
    assert nowhere.client.trusted
    assert nowhere.find("/instances/nobody") is None
    nowhere.client.api.session.close()


def test_the_project_of_the_client_is_sent_with_every_request(rest: Rest) -> None:
    elsewhere = rest.in_project(f"none-{uuid.uuid4().hex[:8]}")
    assert elsewhere.client.api["instances"]._project == elsewhere.project


def test_the_architectures_the_server_runs_natively_are_told(rest: Rest) -> None:
    environment = rest.info["environment"]
    assert environment["kernel_architecture"] == environment["architectures"][0] == os.uname().machine


def test_pylxds_own_socket_adapter_keeps_a_connection_per_address(rest: Rest) -> None:
    # Why we bring an adapter: every operation has an address of its own, so nothing would be reused.
    adapter = _UnixAdapter()
    one = adapter.get_connection("http+unix://%2Fsocket/1.0/operations/1", None)
    other = adapter.get_connection("http+unix://%2Fsocket/1.0/operations/2", None)
    assert one is not other
    ours = rest.client.api.session.get_adapter("http+unix://")
    assert ours.get_connection_with_tls_context(1) is ours.get_connection_with_tls_context(2)


def test_importing_our_package_first_keeps_pylxd_quiet() -> None:
    code = "import anycastlab.incus.rest, os, pylxd.models; print(os.environ['PYLXD_WARNINGS'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "none\n"
    assert result.stderr == ""
