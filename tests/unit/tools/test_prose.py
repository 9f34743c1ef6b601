"""How prose is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose

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


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("It waits in line.", "queued"),
        ("Nobody is told.", "a noun for the actor"),
        ("A page for who runs the cluster.", "the cluster administrator"),
        (" ".join(["word"] * 26), "26 words"),
        (" ".join(["word"] * 25), ""),
        ("A job is queued.", ""),
    ],
)
def test_what_is_to_be_replaced_or_split(sentence: str, found: str) -> None:
    assert [fault.partition(":")[0] for fault in prose.faults([sentence])] == ([found] if found else [])


def test_worse_prose_than_allowed_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(prose, "pages", lambda: [page])
    page.write_text("Short.\n")
    assert prose.main(["--check"]) == 0
    page.write_text(f"{'word ' * 31}.\n")
    assert prose.main(["--check"]) == 1
    assert "31.0 a sentence, 100.0% of more than 30" in capsys.readouterr().out
