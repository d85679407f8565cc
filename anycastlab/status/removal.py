"""What `anycastlab down` is about to remove, for the person who is asked whether to go on."""

from __future__ import annotations

from anycastlab.errors import AnycastlabError
from anycastlab.incus.spec import Lab
from anycastlab.routeros.control import plan_removal_router
from anycastlab.routeros.plan import Remove
from anycastlab.site import Site
from anycastlab.status import built


def will_be_gone(site: Site) -> list[str]:
    """Lines for a person; looks at this machine's Incus server or at the router, and changes nothing."""
    return _lab(Lab(site.lab)) if site.lab is not None else [_router(site), *_nodes(site)]


def _lab(lab: Lab) -> list[str]:
    names = built.own_instances(lab)
    if not names:
        return [f"The lab {lab.name} has no containers; what else is left of it will be deleted."]
    listed = ", ".join(names)
    return [f"The lab {lab.name} will be deleted: its containers {listed}, its bridges and its Incus project."]


def _router(site: Site) -> str:
    host = site.router.api_host
    back = "settings that were changed get their old values back"
    try:
        rows = len(plan_removal_router(site).plan.of(Remove))
    except AnycastlabError as error:
        return f"Router {host}: every row of ours will be removed, and {back}. It cannot be read at the moment: {error}"
    return f"Router {host}: {rows} row{'' if rows == 1 else 's'} of ours will be removed, and {back}."


def _nodes(site: Site) -> list[str]:
    return [
        f"{node.name} ({node.address}): stops serving {site.service.address}; resolver, FRR and probe as set up here "
        "will be removed, and what was there before comes back."
        for node in site.nodes
    ]
