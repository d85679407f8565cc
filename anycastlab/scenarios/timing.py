"""Every time and limit of the scenarios, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass

NS = 1_000_000_000

# Queries per second of the household: the published write-up's rate, and about a busy evening of a family.
RATE = 20.0

# Seconds between asking the phone to start and its first query: the container must have started Python by then, also
# on a busy machine.
PHONE_LEAD_S = 2.5
# Seconds the phone may need after its last query: its late window and its timeout, and writing the files.
PHONE_TAIL_S = 15.0
# Seconds between two looks whether the phone has ended.
PHONE_POLL_S = 0.2
# Seconds that the phone's schedule goes on beyond the planned end of a run; a run ends when its fault is undone and the
# calm after it is over, and then stops the phone.
SCHEDULE_SPARE_S = 30.0
# Seconds between two acts of a fault's undoing or repeating are measured from the same clock as the queries; sleeps are
# cut into pieces of this length so that Ctrl-C is heard at once.
SLEEP_PIECE_S = 0.25
# Seconds to wait for the lab's lock: a guardian may still be undoing (a deploy at worst); a whole other run is longer.
LOCK_LIMIT_S, LOCK_POLL_S = 60.0, 0.5
# Seconds an action on a machine may take. Stopping a container takes about one.
ACTION_LIMIT_S = 30.0
# Seconds a change that is the "fault" itself may take, such as a rolling deploy.
LONG_ACTION_LIMIT_S = 180.0
# Tries to undo a fault, and the wait between them in seconds: the lab must not stay broken for a passing hiccup.
UNDO_TRIES, UNDO_RETRY_S = 5, 1.0
# Seconds the guardian goes on trying when an undo fails: a restarting Incus or router is back by then, and a runner
# that still lives waits longer than this (`LONG_ACTION_LIMIT_S`). And the seconds between two rounds.
PATIENCE_S, ROUND_S = 120.0, 3.0
# Seconds before the fault in which it is aimed (the sample below), its undo written down, and the guardian told.
AIM_S = 2.0
# Seconds over which the packets to each node are counted to find the one that serves the client.
SERVING_SAMPLE_S = 1.0
# Seconds a lab may take to be healthy again before the next run.
HEALTHY_LIMIT_S = 60.0
HEALTHY_POLL_S = 1.0
# Seconds of that in which nothing is said: a lab takes a moment after each run.
HEALTHY_QUIET_S = 10.0
# Seconds that looking at a machine may take.
LOOK_LIMIT_S = 10.0
# Seconds until a probe that was started anew has found its node healthy and raised the link; then comes the next node.
PROBE_START_S = 2.0


@dataclass(frozen=True)
class Lengths:
    """Seconds of calm before the fault, of the fault, and of calm after it."""

    calm_s: float = 30.0
    hold_s: float = 60.0
    after_s: float = 30.0

    @property
    def total_s(self) -> float:
        return self.calm_s + self.hold_s + self.after_s


FULL = Lengths()
# For continuous integration: long enough for BFD, the probe and netwatch to act and to come back.
QUICK = Lengths(calm_s=5.0, hold_s=10.0, after_s=12.0)
