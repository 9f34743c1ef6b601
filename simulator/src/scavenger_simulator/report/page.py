"""One page that needs nothing else: tables and charts of all studies, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from scavenger_simulator.report.charts import scatter
from scavenger_simulator.report.figures import Study
from scavenger_simulator.report.pictures import Picture, pictures
from scavenger_simulator.report.table import COLUMNS, facts, policy_rows, size_rows, without

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1080px;
  margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.3em; margin-top: 2em } h3 { font-size: 1em; margin: 1.2em 0 .2em }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 1em 0 }
.wide { overflow-x: auto }
th, td { padding: .25em .6em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto; display: block }
summary { cursor: pointer; font-weight: 600; padding: .4em 0; border-top: 1px solid #ddd }
.legend { font-size: 13px; margin: 0 0 .3em } .legend span { margin-right: 1.2em; white-space: nowrap }
.legend i { display: inline-block; width: 11px; height: 11px; margin-right: .4em; border-radius: 2px }
.note { color: #555; font-size: 13px }
"""

OURS: Final = "ours"


def as_page(studies: Sequence[Study]) -> str:
    """The whole page."""
    title = "Scavenging simulated: " + ", ".join(study.scenario for study in studies)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>\n{''.join(_study(study) for study in studies)}</body></html>\n"
    )


def _study(study: Study) -> str:
    parts = [
        f"<h2>{escape(study.scenario)}</h2>\n",
        f'<p>{escape(facts(study))}; {escape(without(study))}.</p>\n<p class="note">{escape(study.origin)}.</p>\n',
        _settings(study),
        _table([name for name, _ in COLUMNS], policy_rows(study)),
    ]
    if len(study.runs) > 1:
        points = [(one.policy, one.lost, one.useful) for one in study.figures() if one.harvested > 0]
        parts.append("<h3>What is gained, and what it costs</h3>\n")
        parts.append(scatter(points, "core-hours lost", "core-hours useful", "Useful and lost", chosen=OURS))
    opened = OURS if any(run.policy == OURS for run in study.runs) else study.runs[0].policy if study.runs else ""
    for run in study.runs:
        drawn = "".join(_picture(picture) for picture in pictures(study, run))
        if drawn:
            state = " open" if run.policy == opened else ""
            parts.append(f"<details{state}><summary>{escape(run.policy)}</summary>\n{drawn}</details>\n")
    header, rows = size_rows(study)
    parts.append("<h3>Jobs by the size of their work</h3>\n" + _table(header, rows))
    return "".join(parts)


def _settings(study: Study) -> str:
    if not study.settings:
        return '<p class="note">Settings: the defaults.</p>\n'
    said = ", ".join(f"{name}: {value}" for name, value in sorted(study.settings.items()))
    return f'<p class="note">Settings: {escape(said)}; the defaults otherwise.</p>\n'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n'


def _picture(picture: Picture) -> str:
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in picture.legend
    )
    return f'<h3>{escape(picture.heading)}</h3>\n<p class="legend">{legend}</p>\n{picture.svg}\n'
