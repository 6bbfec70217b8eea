"""Every table of the jobs is of runs that some table lists."""

from __future__ import annotations

from jobs.declared import MORE_TABLES, RUNS_OF


def test_each_table_says_which_one_lists_its_runs() -> None:
    assert RUNS_OF.keys() == MORE_TABLES.keys()
    assert all(RUNS_OF[runs] == runs for runs in RUNS_OF.values())
