"""The table of docs/clients.md: each client is played, or the page says why not."""

from __future__ import annotations

from pathlib import Path

from scavenger_testing.job_clients import CLIENTS

PAGE = (Path(__file__).parents[3] / "docs" / "clients.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")][
    1:
]


PLAYED = ("played", "played, run")
RUN = (Path(__file__).parents[2] / "e2e" / "test_job_clients.py").read_text()


def test_every_client_of_the_table_is_played_or_says_why_not() -> None:
    assert {row[0] for row in ROWS if row[-1] in PLAYED} == {client.name for client in CLIENTS}
    others = [row for row in ROWS if row[-1] not in PLAYED]
    assert others
    for row in others:
        assert row[-1].startswith("not run here: "), row[0]


def test_clients_that_are_run_have_a_test() -> None:
    run = {row[0] for row in ROWS if row[-1].endswith("run")}
    assert run == {"CronJob", "Snakemake"}
    assert all(f'"{word}' in RUN for word in ("CronJob", "snakemake"))
