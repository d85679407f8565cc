"""The validated description of one home or lab."""

from anycastlab.site.model import Bfd, Bgp, Node, Resolver, Router, Service, Site

__all__ = ["Bfd", "Bgp", "Node", "Resolver", "Router", "Service", "Site"]
