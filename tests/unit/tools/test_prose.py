"""How prose is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose, texts

PAGE = """# A heading of more words than anything else on this page has

One two three. `kubectl get sj` works, e.g. here.
Four *five* six
seven!

- an item

| a table | of many words |
|---|---|
| one | two |

    code that nobody counts
"""


def test_paragraphs_and_items_count_by_the_sentence() -> None:
    assert list(prose.sentences(PAGE)) == [
        "One two three.",
        "`code` works, e.g. here.",
        "Four five six seven!",
        "an item",
    ]
    assert [prose.words(one) for one in prose.sentences(PAGE)] == [3, 4, 4, 2]


def test_the_share_of_long_sentences() -> None:
    assert prose.figures(["one two", " ".join(["word"] * 31), " ".join(["word"] * 30), "one"]) == (16.0, 0.25)


def test_sentences_to_split() -> None:
    assert list(prose.long(f"{'word ' * 25}.")) == []
    assert [one.partition(":")[0] for one in prose.long(f"{'word ' * 26}.")] == ["26 words"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It waits in line.", "'in line'"),
        ("Nobody is told.", "'Nobody'"),
        ("A page for who runs the cluster.", "'who runs the cluster'"),
        ("# Ordinary pods", "'Ordinary'"),
        ("| what | then |\n|---|---|\n| the guard | is upgraded |", "'the guard'"),
        ("- The CPU time at risk", "'at risk'"),
        ("A job is queued in `ordinary-room`.", ""),
        ("    anybody's output", ""),
        ("The Services of the job, and the service account.", ""),
    ],
)
def test_words_to_replace(text: str, found: str) -> None:
    assert [fault.partition(",")[0] for fault in prose.replaced(text)][:1] == ([found] if found else [])


def test_worse_prose_than_allowed_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    told = ["A message."]
    monkeypatch.setattr(prose, "pages", lambda: [page])
    monkeypatch.setattr(texts, "READERS", {"messages": lambda: iter([("here", told[0])])})
    page.write_text("Short.\n")
    assert prose.main(["--check"]) == 0
    page.write_text("Short.\n\n# Nobody\n")
    assert prose.main(["--check"]) == 1
    assert "page.md: 'Nobody', write a noun for the actor: Nobody\n" in capsys.readouterr().out
    page.write_text(f"{'word ' * 31}.\n")
    assert prose.main(["--check"]) == 1
    assert "31.0 a sentence, 100.0% of more than 30" in capsys.readouterr().out
    page.write_text("Short.\n")
    told[0] = "nobody knows"
    assert prose.main(["--check"]) == 1
    assert "here: 'nobody', write a noun for the actor: nobody knows\n" in capsys.readouterr().out
    told[0] = f"{'word ' * 31}."
    assert prose.main(["--texts"]) == 0
    assert capsys.readouterr().out.startswith("here: 31 words: word")
    assert prose.main(["--check"]) == 1
    assert "messages has sentences that are too long\n" in capsys.readouterr().out


def test_words_in_all_count_tables_and_code_and_leave_the_reference_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, reference = tmp_path / "page.md", tmp_path / "reasons.md"
    page.write_text("# One two\n\n    three four\n")
    reference.write_text("many more words\n")
    monkeypatch.setattr(prose, "pages", lambda: [page, reference])
    assert prose.main(["--words"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["5", "5"]
