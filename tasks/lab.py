"""The embedded lab around the nodes: the internet, the router's machine, the clients. Does nothing in a real home."""

from functools import partial
from typing import Any

from pyinfra import host, inventory, logger
from pyinfra.api import deploy

from anycastlab import bundle
from anycastlab.incus.operations import instance, require_possible
from anycastlab.incus.spec import InstanceSpec, Lab
from anycastlab.lab import ipv6, router, specs, upstream
from anycastlab.lab.base_image import alias_of, base_image
from anycastlab.lab.configured import at_hand, configured
from anycastlab.lab.credentials import lab_password
from anycastlab.node.managed import ManagedFile
from anycastlab.site import Site
from anycastlab.site.load import router_version
from anycastlab.status import built


def surroundings(site: Site) -> None:
    """Everything of the lab that is not a node."""
    if "upstream" in host.groups:
        _tell_of_forgotten()
        _upstream()
    elif "router_machine" in host.groups:
        _router_machine(site=site)
    elif "clients" in host.groups:
        _client(site=site)


def _tell_of_forgotten() -> None:
    for name in built.forgotten(Lab(host.data.lab), built.names_in(list(inventory))):
        logger.warning(built.reminder(name))


def machine(spec: InstanceSpec, rebuild: bool | None = None) -> None:
    """The image, then the instance: the first operations of every machine of the lab.

    Without `rebuild` it is made anew when the setting of that name names it; `all` is the nodes' alone.
    """
    data = host.data
    if rebuild is None:
        rebuild = spec.name in str(data.get("rebuild") or "").split(",")
    require_possible(spec, Lab(data.lab), rebuild)  # before the first machine is touched
    base_image(name="Base image", image=data.image, release=data.image_release)
    instance(
        name="Instance",
        spec=spec,
        image=alias_of(data.image, data.image_release),
        lab=Lab(data.lab),
        rebuild=rebuild,
    )


@deploy("Lab: the internet")
def _upstream() -> None:
    machine(specs.upstream_spec(Lab(host.data.lab)))
    delay_ms = host.data.upstream_delay_ms
    configured(name="DNS servers", files=lambda _: upstream.files(delay_ms), units=upstream.UNITS)


@deploy("Lab: the router's machine")
def _router_machine(site: Site) -> None:
    data = host.data
    spec = specs.router_spec(Lab(data.lab))
    if spec.name in str(data.get("rebuild") or "").split(","):
        at_hand(name="Replacement", files=partial(_stand_in, site, data))
    machine(spec)
    ipv6.addresses(name="IPv6", legs=ipv6.router_legs() if site.service.address6 else ())
    configured(name="RouterOS stand-in", files=partial(_stand_in, site, data), units=(router.UNIT,))


def _stand_in(site: Site, data: Any, create: bool) -> tuple[ManagedFile, ...]:
    """Its files; its password is made when the deploy really runs."""
    password = lab_password(Lab(data.lab), site.router.user, create=create)
    program = bundle.bundle("anycastlab.virtual_router")
    version, twin = router_version(data.router_version), site.service.address6 is not None
    config = router.config(version, site.router.user, password, ipv6=twin)
    return router.files(program, config)


@deploy("Lab: a client")
def _client(site: Site) -> None:
    data = host.data
    machine(specs.client_spec(Lab(data.lab), data.incus_instance, data.number, site.service.address))
    ipv6.addresses(name="IPv6", legs=ipv6.client_legs(data.number) if site.service.address6 else ())
    phone = ManagedFile("/usr/local/lib/anycastlab/phone.pyz", bundle.bundle("anycastlab.phone"), mode=0o755)
    configured(name="Phone", files=lambda _: (phone,))
