"""The health probe: decides, on each node, whether that node announces the service address.

Runs on the node with Debian's Python alone. The pure core (`health`, `holddown`, `machine`, `effect`, `wire`) does no
I/O and reads no clock; the edges (`checks`, `peers`, `link`, `frr`, `publish`, `notify`) are thin and run on one small
event loop (`loop`), wired together in `service`.
"""
