"""The embedded lab: a household on one machine, in Incus containers."""
