"""Whether a firewall on this host swallows traffic between the lab's machines. Pure.

Docker sets the policy of the host's FORWARD chain to drop. That reaches bridged traffic only where br_netfilter hands
it to the IPv4 tables (`bridge-nf-call-iptables`), which Docker also switches on.
"""

from __future__ import annotations

from anycastlab.stored import parse_json


def forward_policy_drops(nft_chains: str) -> bool:
    """Reads `nft --json list chains`: any IPv4 or inet chain in the forward hook whose policy is drop."""
    try:
        entries = parse_json(nft_chains)["nftables"]
    except (ValueError, KeyError, TypeError):
        return False
    return any(
        chain.get("family") in ("ip", "inet") and chain.get("hook") == "forward" and chain.get("policy") == "drop"
        for entry in entries
        if isinstance(chain := entry.get("chain"), dict)
    )


def iptables_forward_drops(rules: str) -> bool:
    """Reads `iptables -S FORWARD` (the older kernel interface, which nft does not show)."""
    return any(line.split() == ["-P", "FORWARD", "DROP"] for line in rules.splitlines())
