"""Measurements: medians and ratios from one run on one machine, never assertions (machines are noisy)."""
