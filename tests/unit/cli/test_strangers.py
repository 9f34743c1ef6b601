"""What strangers wrote is printed as text: nothing of it moves a cursor, clears a screen or turns a line round."""

from __future__ import annotations

import json

import pytest
import yaml
from scavenger_cli import output
from scavenger_cli.exits import CliError
from scavenger_cli.forms import Format, print_data
from scavenger_cli.output import columns
from scavenger_cli.top import jobs_screen
from scavenger_domain.plain_text import plain

from .cases import NOW, job
from .test_screens import drawn

HOSTILE = "failed\x1b[2J\x1b[8m\x9b1m \u202egnp.exe\r"
SHOWN = plain(HOSTILE)


@pytest.mark.parametrize("say", [output.say, output.note, lambda text: output.say_error(CliError(text, text))])
def test_lines(say: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(say)
    say(HOSTILE)
    printed = "".join(capsys.readouterr())
    assert SHOWN in printed
    assert plain(printed) == printed


def test_columns_are_as_wide_as_what_is_shown_and_colours_are_ours_alone() -> None:
    lines = columns(["PHASE", "MESSAGE", "END"], [["Running", HOSTILE, "x"], ["Failed", SHOWN, "x"]], colour=True)
    assert [line.count("\x1b") for line in lines] == [0, 2, 2]
    assert all(SHOWN in line for line in lines[1:])


def test_the_screen_of_jobs() -> None:
    shown = "\n".join(drawn(jobs_screen([job("a", status={"message": HOSTILE})], NOW, 40, 200, namespaces=False), 200))
    assert SHOWN in shown


@pytest.mark.parametrize("text", [HOSTILE, f"two\nlines {HOSTILE}"])
def test_json_and_yaml_mean_the_same(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form, read in ((Format.JSON, json.loads), (Format.YAML, yaml.safe_load)):
        print_data({"message": text}, form)
        printed = capsys.readouterr().out
        assert plain(printed) == printed
        assert read(printed) == {"message": text}
