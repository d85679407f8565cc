"""Every wait and bound of this package, each with its unit and its reason."""

from __future__ import annotations

CONNECT_TIMEOUT_S = 5.0  # a daemon on this host accepts at once; a remote one over a home uplink within a second
REQUEST_TIMEOUT_S = 60.0  # silence on one request; the daemon itself is busy for seconds while it unpacks an image
OPERATION_TIMEOUT_S = 180.0  # creating, starting, stopping or deleting one instance on a slow disk
TRANSFER_TIMEOUT_S = 300.0  # one file; 30 MB to a small board's SD card takes about ten seconds

# Idle connections kept open per server. More than twice the hosts of a large lab: beyond it urllib3 warns on stderr.
KEPT_CONNECTIONS = 64

TIMEOUT_KILL_AFTER_S = 2  # between SIGTERM and SIGKILL for a command that ran out of time inside the instance
TIMEOUT_GRACE_S = 10.0  # how long past its own time limit a command may take to be reported back

BOOT_TIMEOUT_S = (
    60.0  # from start to systemd's multi-user.target; about 1 s on an idle machine, ten instances at once 10 s
)
BOOT_POLL_S = 0.05  # how often the machine is asked meanwhile

READY_POLL_S = 0.05  # how often something that another run is just creating is looked at again
READY_TIMEOUT_S = 15.0  # until a bridge or project that another run is creating must be there

STOP_TIMEOUT_S = 30  # whole seconds the daemon may take for a forced stop

COMMANDS_BEFORE_SESSION = 2  # a session costs about as much as two commands to open; `status` asks less than that
# The server's helper for files of a stopped instance ends when idle, and a request may meet it just then; an interface
# that it has listed may be gone when it looks at it.
BUSY_TRIES, BUSY_PAUSE_S = 10, 0.2
REMOVE_TRIES, REMOVE_PAUSE_S = 5, 0.5  # for a bridge whose last interfaces are vanishing while it is removed
STATUS_CHECK_S = 2.0  # silence of a running command after which it is asked whether its instance still runs
