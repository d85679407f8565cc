"""What each figure is meant to be, by `measurement.figure`; one place, so README and bench cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """At most `limit`; `unit` for the reader."""

    limit: float
    unit: str

    @property
    def text(self) -> str:
        return f"≤ {self.limit:g} {self.unit}".rstrip()

    def met(self, value: object) -> bool:
        return isinstance(value, (int, float)) and value <= self.limit


TARGETS = {
    "deploy.empty_to_first_answer_s": Target(60, "s"),
    "deploy.no_change_s": Target(10, "s"),
    "deploy.dry_run_s": Target(10, "s"),
    "deploy.rebuild_three_s": Target(60, "s"),
    "connector.ratio": Target(0.6, "of incus exec"),
    "phone.high.late_p99_ms": Target(5, "ms"),
    "phone.high.skipped": Target(0, ""),
    "phone.household.late_p99_ms": Target(5, "ms"),
    "phone.household.skipped": Target(0, ""),
    # From the fault to the router's kernel table; medians, and once the worst.
    "probe.killed_resolver.gone_s": Target(0.3, "s"),
    "probe.killed_resolver.gone_worst_s": Target(0.3, "s"),
    "probe.hung_resolver.gone_s": Target(1.5, "s"),
    "probe.local_path_lost.gone_s": Target(1.5, "s"),
    "probe.local_path_lost.back_s": Target(3, "s"),
    "probe.slow_200ms.gone_s": Target(5, "s"),
    "probe.resident_mb": Target(30, "MB"),
    "probe.core_percent": Target(2, "% of a core"),
    "router.no_change_s": Target(1.5, "s"),
    "router.no_change_round_trips": Target(25, ""),
    # Medians of what a household loses at 20 queries per second.
    "scenarios.kill.lost": Target(0, "queries"),
    "scenarios.link-down.lost": Target(0, "queries"),
    "scenarios.planned-restart.lost": Target(0, "queries"),
    "scenarios.drain.lost": Target(0, "queries"),
    "scenarios.rolling-deploy.lost": Target(0, "queries"),
    "scenarios.freeze_3x300.of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.freeze_3x300.fine_of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.freeze_3x100.of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.freeze_3x100.fine_of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.freeze_3x50.of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.freeze_3x50.fine_of_detection": Target(1.25, "of BFD's detection time"),
    "scenarios.all-dead.outage_s": Target(1.5, "s"),
    "scenarios.local-path-lost.lost_after_2_s": Target(0, "queries"),
    "scenarios.wan-down.cached_or_local_failed": Target(0, "queries"),
    "scenarios.wan-down.not_as_expected": Target(0, "runs"),
}
