"""The plan of a clean-up as a value."""

import attrs

from hostrouting.tasks.cleanup.plan import CleanupEntry, CleanupPlan


def test_a_dry_run_deletes_nothing() -> None:
    """The plan of a task that only reports has nothing to do, and says why."""
    plan = CleanupPlan(entries=(CleanupEntry("rule", "x", "delete", "dead"),))
    assert not plan.is_empty
    report = attrs.evolve(plan, is_dry_run=True)
    assert report.is_empty
    assert str(report) == "stale (dryRun) rule x    # dead"
