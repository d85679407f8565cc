"""The validated description of one home or lab."""

from anycastlab.site.model import Site
from anycastlab.site.parts import Bfd, Bgp, Node, Resolver, Router, Service

__all__ = ["Bfd", "Bgp", "Node", "Resolver", "Router", "Service", "Site"]
