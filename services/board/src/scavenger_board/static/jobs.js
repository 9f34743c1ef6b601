// Jobs as a table with their progress.
import { $, SIGNS, el, note, rows, setText } from "./dom.js";
import { clock, cpuTime, local, plural, span, when } from "./format.js";

export const MOST_ROWS = 200;
const PHASES = ["Running", "Starting", "Waiting", "Interrupted", "Suspended", "Completed", "Failed", "Unknown"];
const KINDS = { Completed: "good", Failed: "bad", Interrupted: "warn", Unknown: "warn" };
const filter = { phase: "", text: "", order: "key" };
let redraw = () => {};

// CPU-seconds since the last checkpoint, reported or due; null where nothing says so.
export function unsaved(job, now) {
  return job.safeUntil === null ? null : (Math.max(0, now / 1000 - job.safeUntil) * job.cpu) / 1000;
}

let placed = { jobs: null, places: new Map() };

// The place of a job among those queued, from 1; null for others. The order is that of the admitter.
export function place(jobs, job) {
  if (!job.rank) return null;
  if (placed.jobs !== jobs) {
    const lines = new Map();
    for (const one of jobs) if (one.rank) lines.set(one.queue, lines.get(one.queue) ?? []).get(one.queue).push(one);
    placed = { jobs, places: new Map() };
    for (const line of lines.values()) line.sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || (a.rank[2] < b.rank[2] ? -1 : 1)).forEach((one, index) => placed.places.set(one.key, index + 1));
  }
  return placed.places.get(job.key) ?? null;
}

// Core-seconds that jobs held between two moments, as far as their statuses say.
export function held(jobs, from, now) {
  let sum = 0;
  for (const job of jobs) {
    for (const [start, end, how] of job.runs) {
      const until = end ?? (how === "running" ? now : start);
      if (until > from) sum += Math.max(0, Math.min(until, now) - Math.max(start, from)) * job.cpu;
    }
  }
  return sum / 1000;
}

const told = ([start, end, how]) => `${local(start * 1000)}: ${end === null && how !== "running" ? "when it ended is not known" : `${how}${end === null ? "" : ` after ${span(end - start)}`}`}`;

export function gantt(job, now) {
  const bar = el("span", { class: "gantt" });
  const from = job.runs[0][0];
  const last = job.runs.at(-1);
  const until = Math.max(last[1] ?? now / 1000, from + 1);
  job.runs.forEach(([start, end, how], index) => {
    const next = job.runs[index + 1]?.[0] ?? until;
    const run = el("i", { class: how });
    run.style.left = `${(100 * (start - from)) / (until - from)}%`;
    run.style.width = `${(100 * Math.max(0, (end ?? (how === "running" ? until : next)) - start)) / (until - from)}%`;
    bar.append(run);
  });
  bar.title = job.runs.map(told).join("\n");
  return bar;
}

function runs(job, now) {
  if (job.array) {
    const done = el("span", { class: "bar" }, el("i"));
    done.firstChild.style.width = `${(100 * (job.array.completed + job.array.failed)) / job.array.tasks}%`;
    const failed = job.array.failed ? `, ${job.array.failed.toLocaleString("en")} failed` : "";
    return [done, el("span", { class: "sub" }, `${job.array.completed.toLocaleString("en")} of ${plural(job.array.tasks, "task")}${failed}`)];
  }
  if (!job.runs.length) return [];
  const text = plural(job.runs.length, "run");
  return [gantt(job, now), el("span", { class: "sub" }, job.runs.length >= 20 ? `last ${text}` : text, ` since ${clock(job.runs[0][0] * 1000).slice(0, 5)}`)];
}

function checkpoint(job, now) {
  if (job.safeUntil === null || job.array) return [];
  const at = new Date((job.checkpointed ?? job.safeUntil) * 1000).toISOString();
  const last = job.runs.at(-1)[0];
  if (job.checkpointed !== null) return [when(at, now)];
  return [el("span", { class: "sub" }, job.safeUntil > last ? "none reported; due " : "none in ", job.safeUntil > last ? when(at, now) : when(at, now, ""))];
}

const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

function matching(jobs, now, all) {
  const wanted = words(filter.text);
  const fits = (job) => {
    if (filter.phase && job.phase !== filter.phase) return false;
    if (!wanted.length) return true;
    const text = `${job.key} ${job.queue} ${job.phase} ${job.why} ${job.nodes.join(" ")}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
  const found = filter.phase || wanted.length ? jobs.filter(fits) : [...jobs];
  if (filter.order === "place") found.sort((a, b) => (place(all, a) ?? 1e9) - (place(all, b) ?? 1e9) || (a.queue < b.queue ? -1 : 1));
  else if (filter.order === "unsaved") found.sort((a, b) => (unsaved(b, now) ?? -1) - (unsaved(a, now) ?? -1));
  else if (filter.order === "lost") found.sort((a, b) => (b.lost ?? -1) - (a.lost ?? -1));
  return found;
}

function update(picture, now, open) {
  return (row, job) => {
    const why = job.why ? `${job.why}: ${job.says || (picture.meanings[job.why] ?? "")}` : job.says;
    const kind = KINDS[job.phase] ?? "";
    const cell = (label, ...children) => el("td", { "data-label": label }, ...children);
    row.replaceChildren(
      el("td", {}, el("button", { type: "button", class: "job" }, job.key)),
      el("td", {}, el("span", { class: kind }, `${SIGNS[kind]} ${job.phase}`.trim()), job.rank ? el("span", { class: "sub place" }) : null),
      cell("queue", job.queue),
      el("td", {}, ...runs(job, now)),
      cell("checkpoint", ...checkpoint(job, now)),
      cell("unsaved", job.safeUntil === null ? "" : cpuTime(unsaved(job, now))),
      cell("lost", job.lost ? cpuTime(job.lost) : ""),
      el("td", {}, why),
    );
  };
}

function phases(jobs) {
  const counts = new Map();
  for (const job of jobs) counts.set(job.phase, (counts.get(job.phase) ?? 0) + 1);
  rows(
    $("phases"),
    PHASES.filter((phase) => counts.has(phase) || filter.phase === phase).map((phase) => `${phase}|${counts.get(phase) ?? 0}|${filter.phase === phase}`),
    (text) => text.split("|")[0],
    (text) => el("button", { type: "button", onclick: () => choose(text.split("|")[0]) }),
    (button, text) => {
      const [phase, count, pressed] = text.split("|");
      button.setAttribute("aria-pressed", pressed);
      setText(button, `${phase} ${Number(count).toLocaleString("en")}`);
    },
  );
}

export function jobs(picture, open, now, all) {
  const found = matching(picture.jobs, now, all);
  const shown = found.slice(0, MOST_ROWS);
  rows($("jobs"), shown, (job) => job.key, (job) => el("tr", { onclick: () => open("job", job.key) }), update(picture, now, open));
  for (const row of $("jobs").children) if (row.item.rank) setText(row.querySelector(".place"), ` no. ${place(all, row.item)} queued`);
  const count = (number) => number.toLocaleString("en");
  setText($("n-jobs"), found.length === picture.jobs.length ? count(found.length) : `${count(found.length)} of ${count(picture.jobs.length)}`);
  if (found.length > shown.length) note($("jobs"), `… and ${plural(found.length - shown.length, "job")} not shown: search, or choose a phase`);
  else if (found.length) note($("jobs"), "");
  else if (picture.jobs.length) note($("jobs"), "No job matches. Clear the search, or choose another phase.", "empty");
  else note($("jobs"), picture.past ? "No job is known at this moment." : "There is no job yet. To submit one: kubectl sj submit JOB.yaml", "empty");
  phases(picture.jobs);
}

// Figures that grow as time passes, written anew in the rows that run.
export function tick(now) {
  for (const row of $("jobs").children) {
    const cell = row.item?.safeUntil == null ? null : row.children[5];
    if (cell) setText(cell, cpuTime(unsaved(row.item, now)));
  }
}

export function start(callback) {
  redraw = callback;
  $("search").addEventListener("input", () => {
    filter.text = $("search").value;
    redraw();
  });
  $("order").addEventListener("change", () => {
    filter.order = $("order").value;
    redraw();
  });
  $("find").addEventListener("submit", (event) => event.preventDefault());
}

function choose(phase) {
  filter.phase = filter.phase === phase ? "" : phase;
  redraw();
}
