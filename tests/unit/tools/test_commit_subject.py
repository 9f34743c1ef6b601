"""Which subjects of commits the hook takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tools.commit_subject import main, subject_of, wrong

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("admitter: keep the turn per pool", ""),
        ("kubectl sj: process each Job once", ""),
        ("regulator, simulator: judge shared figures once", ""),
        ("charts: embed the table", ""),
        ("admitter: run, suspend and fail Jobs", ""),
        ("Merge branch 'wt-words' into main, with a name that is longer than a subject may be", ""),
        (f"docs: say {'x' * 62}", ""),
        (f"docs: say {'x' * 63}", "it has 73 characters, and 72 are allowed"),
        ("Keep the turn per pool", "write where the change is"),
        ("admitter:", "write where the change is"),
        ("admitter: fixes the turn", "not 'fixes'"),
        ("admitter: added a turn", "not 'added'"),
        ("tests: adding a table", "not 'adding'"),
        ("prioritizer: who was displaced costs nobody his class", "not 'who'"),
        ("kube: A handshake that fails is tried once more", "not 'A'"),
    ],
)
def test_a_subject_says_a_change_shortly(subject: str, fault: str) -> None:
    found = list(wrong(subject))
    assert bool(found) is bool(fault)
    assert fault in " ".join(found)


def test_the_subject_is_the_first_line_that_git_keeps() -> None:
    assert subject_of("# a comment\n\ndocs: say why\n\nA body.\n") == "docs: say why"
    assert subject_of("# nothing\n") == ""


def test_the_hook_fails_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("docs: say why\n")
    assert main([str(message)]) == 0
    message.write_text("docs: said why\n\nBody.\n")
    assert main([str(message)]) == 0, "irregular forms are not known"
    message.write_text("docs: changed it\n")
    assert main([str(message)]) == 1
    assert "'docs: changed it': write the change as an order" in capsys.readouterr().err


def test_pre_commit_installs_it_as_a_hook_of_messages() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert config["default_install_hook_types"] == ["pre-commit", "commit-msg"]
    (hook,) = [one for repo in config["repos"] for one in repo["hooks"] if one["id"] == "commit-subject"]
    assert hook["stages"] == ["commit-msg"]
    assert hook["entry"].endswith("python -m tools.commit_subject")
