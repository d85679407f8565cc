"""All rows of a person that undo ours, the worst first. Pure."""

from __future__ import annotations

from anycastlab.routeros import obstacles_dns, obstacles_firewall, obstacles_routing
from anycastlab.routeros.obstacles import Obstacle, Scene
from anycastlab.routeros.reading import Reading
from anycastlab.site.model import Site

_LOOKS = (
    obstacles_routing.providers,
    obstacles_routing.forwarding,
    obstacles_firewall.tracking,
    obstacles_firewall.firewall,
    obstacles_routing.rules,
    obstacles_routing.vrfs,
    obstacles_routing.hotspots,
    obstacles_dns.servers,
    obstacles_dns.static_rows,
    obstacles_firewall.hardware,
)
_ORDER = ("exposes", "breaks", "may")


def look_around(site: Site, reading: Reading) -> tuple[Obstacle, ...]:
    """Empty where nothing of a person's is in the way."""
    scene = Scene.of(site, reading)
    found = [obstacle for look in _LOOKS for obstacle in look(scene)]
    return tuple(sorted(found, key=lambda obstacle: _ORDER.index(obstacle.weight)))
