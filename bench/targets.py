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
    "router.no_change_s": Target(1.5, "s"),
    "router.no_change_round_trips": Target(25, ""),
}
