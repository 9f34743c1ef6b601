"""The site of the documentation: where pages and links go."""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.docs_site import ROOT, page, pages, titles_of

FOUND = {
    Path("README.md"): Path("index.md"),
    Path("docs/queues.md"): Path("queues.md"),
    Path("docs/gain.svg"): Path("gain.svg"),
    Path("docs/designs/0001-run.md"): Path("designs/0001-run.md"),
}
TITLES = {Path("docs/queues.md"): "Queues", Path("docs/designs/0001-run.md"): "0001: Runs"}


def test_links_lead_to_pages_and_others_are_text() -> None:
    readme = (
        "![gain](docs/gain.svg) [queues](docs/queues.md#limits), [code](services/x.py), [out](https://example.com/)"
    )
    assert page(readme, Path("README.md"), FOUND, TITLES) == (
        "![gain](gain.svg) [queues](queues.md#limits), code, [out](https://example.com/)"
    )
    note = "[queues](../queues.md), [start](../../README.md), [here](#why), [chart](../../charts/a)"
    assert page(note, Path("docs/designs/0001-run.md"), FOUND, TITLES) == (
        "[queues](../queues.md), [start](../index.md), [here](#why), chart"
    )


def test_names_of_pages_become_titles_and_other_files_lead_to_the_code() -> None:
    text = "[queues.md](docs/queues.md#limits), [designs/0001](docs/designs/0001-run.md), [`x`](services/x.py)"
    code = "https://forge.example.com/blob/v1/"
    assert page(text, Path("README.md"), FOUND, TITLES, code) == (
        "[Queues](queues.md#limits), [0001: Runs](designs/0001-run.md), "
        "[`x`](https://forge.example.com/blob/v1/services/x.py)"
    )


def test_every_page_has_a_title() -> None:
    found = pages()
    assert titles_of(found).keys() == {path for path in found if path.suffix == ".md"}


def test_every_page_is_in_the_navigation() -> None:
    def leaves(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry if isinstance(entry, list) else list(entry.values())  # type: ignore[attr-defined]
        return [leaf for value in values for leaf in leaves(value)]

    listed = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    shown = {str(there) for there in pages().values() if there.suffix == ".md" and there.parent == Path()}
    assert sorted(listed) == sorted({*shown, "designs/index.md"})
