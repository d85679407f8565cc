"""The stand-in router, API side."""
