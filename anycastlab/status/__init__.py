"""What the home looks like now: nodes, router and service, seen from each of them."""
