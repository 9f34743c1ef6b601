// The panel at the side: all of one job, node or queue.
import { $, el, rows } from "./dom.js";
import { amount, cpuTime, local, percent, plural, when } from "./format.js";
import { gantt, place, unsaved } from "./jobs.js";
import { entryRow, since } from "./tables.js";

function list(pairs) {
  const made = el("dl");
  for (const [name, text] of pairs) if (text !== "" && text !== null && text.length !== 0) made.append(el("dt", {}, name), el("dd", {}, ...[text].flat()));
  return made;
}

const link = (open, kind, name) => el("button", { type: "button", onclick: () => open(kind, name) }, name);

function why(job, meanings) {
  if (job.phase === "Waiting" || job.phase === "Interrupted") {
    if (job.why || job.says) return ["Why it waits", [job.why, meanings[job.why], job.says].filter(Boolean).join(" · ")];
    return ["Why it waits", "not known"];
  }
  return ["Message", job.says];
}

const STATES = { f: "some failed", r: "some run", i: "some were interrupted", c: "completed", "-": "some completed", ".": "wait" };

// The indexes that a user gave, as 1,5,9-12 or 0-99:3; none where tasks are counted from 0 on.
function numbersOf(text) {
  if (!text) return [];
  return text.split(",").flatMap((part) => {
    const [first, last = first, step = 1] = part.split(/[-:]/).map(Number);
    return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, at) => first + at * step);
  });
}

// All tasks in some hundred cells, and the same in words.
function progress(array) {
  const count = (number) => number.toLocaleString("en");
  const said = [[array.completed, "completed"], [array.failed, "failed"], [array.running, "running"]].filter(([number]) => number).map(([number, what]) => `${count(number)} ${what}`);
  const text = `${count(array.tasks)}: ${said.join(", ") || "none has ended"}`;
  if (!array.cells) return [text];
  const numbers = numbersOf(array.indexes);
  const each = Math.ceil(array.tasks / array.cells.length);
  const grid = el("div", { class: "tasks", role: "img" });
  grid.setAttribute("aria-label", text);
  [...array.cells].forEach((state, index) => {
    const first = index * each;
    const last = Math.min(array.tasks, first + each) - 1;
    const word = first === last ? { f: "failed", r: "runs", i: "was interrupted", c: "completed", ".": "waits" }[state] : STATES[state];
    grid.append(el("i", { class: { f: "failed", r: "running", i: "interrupted", c: "completed", "-": "some" }[state] ?? "", title: first === last ? `task ${numbers[first] ?? first}: ${word}` : `tasks ${numbers[first] ?? first} to ${numbers[last] ?? last}: ${word}` }));
  });
  return [text, grid, each > 1 ? el("div", { class: "sub" }, `a cell is ${plural(each, "task")}`) : ""];
}

function placed(array, open) {
  const lines = array.shown.map(([task, node]) => el("div", {}, `task ${task}: `, node ? link(open, "node", node) : "no node yet"));
  if (array.pods > array.shown.length) lines.push(el("div", { class: "sub" }, `… and ${plural(array.pods - array.shown.length, "task")} that are not shown: kubectl sj tasks`));
  return lines.length ? [el("div", { class: "list" }, ...lines)] : "";
}

function job(picture, key, open, now, all) {
  const found = picture.jobs.find((one) => one.key === key);
  const left = picture.timeline.filter((entry) => entry.job === key);
  const history = el("div");
  const [make, update] = entryRow(null, now);
  rows(history, left, (entry) => entry.id, make, update);
  const [namespace, ...kindAndName] = key.split("/"), name = kindAndName.join("/");
  if (!found) return [el("p", {}, "This job does not exist now."), el("h3", {}, "Interruptions, and their reasons"), history];
  const [label, says] = why(found, picture.meanings);
  return [
    list([
      ["Phase", `${found.phase} ${since(found.since, now)}`],
      [label, says],
      ["Queue", [link(open, "queue", found.queue), found.rank ? ` no. ${place(all, found)} queued` : ""]],
      ["Tasks", found.array ? progress(found.array) : ""],
      ["Requests", found.array && !found.pods ? "" : `${plural(found.pods, "pod")}: ${amount("cpu", found.cpu)} cpu, ${amount("memory", found.memory)} memory${found.reclaimed ? ", reclaimed capacity" : ""}`],
      ["On nodes", found.array ? placed(found.array, open) : found.nodes.map((node) => link(open, "node", node))],
      ["Useful", cpuTime(found.useful)],
      ["Lost", `${cpuTime(found.lost)}, ${plural(found.interrupted, "interruption")}`],
      ["Runs", found.runs.length ? [gantt(found, now), ...found.runs.slice(-5).reverse().map(([start, end, how]) => el("div", { class: "sub" }, `${local(start * 1000)} · ${how === "running" ? how : end === null ? "when it ended is not known" : `${how} ${local(end * 1000)}`}`))] : ""],
      ["Checkpoint", found.safeUntil === null || found.array ? "" : found.checkpointed === null ? "none reported in this run" : [when(new Date(found.checkpointed * 1000).toISOString(), now)]],
      ["Unsaved work", found.safeUntil === null ? "" : `${cpuTime(unsaved(found, now))} since the last checkpoint, reported or due`],
      ["Priority", found.atRisk === null ? "" : `${cpuTime(found.atRisk)} (${found.preemptionClass}), including the cost of a restart, as last written`],
    ]),
    el("h3", {}, "Interruptions, and their reasons"),
    left.length ? history : el("p", {}, found.interrupted ? "No record of them is left." : "It was never interrupted."),
    picture.past ? "" : el("p", { class: "more" }, "More, and what would help: ", el("code", {}, `kubectl sj why ${name} -n ${namespace}`)),
  ];
}

function shareText(resource, one) {
  if (!one.allocatable) return percent(one.load);
  const figures = [`${amount(resource, one.ordinary)} regular`, `${amount(resource, one.scavenger)} scavenger`];
  if (one.reclaimed) figures.push(`${amount(resource, one.reclaimed)} reclaimed`);
  const used = one.used === null ? "" : `, ${amount(resource, one.used)} used`;
  return `${percent(one.load)}: ${figures.join(" + ")} of ${amount(resource, one.allocatable)} requested${used}`;
}

function node(picture, name, open) {
  const found = picture.nodes.find((one) => one.name === name);
  if (!found) return [el("p", {}, "There is no such node at this moment.")];
  return [
    list([
      ["Closed", found.note],
      ["cpu", shareText("cpu", found.cpu)],
      ["memory", shareText("memory", found.memory)],
      ["Pods", picture.past ? "not known" : String(found.pods)],
      ["Jobs", found.jobs.length ? found.jobs.map((key) => link(open, "job", key)) : picture.past ? "not known" : "none"],
    ]),
  ];
}

function queue(picture, name, open) {
  const found = picture.queues.find((one) => one.name === name);
  if (!found) return [el("p", {}, "There is no such queue.")];
  const shares = Object.entries(found.deserved ?? {}).map(([resource, value]) => [
    resource,
    `${amount(resource, found.allocated?.[resource] ?? 0)} of ${amount(resource, value)} that it deserves${found.over?.includes(resource) ? ": more than its share" : ""}`,
  ]);
  return [
    list([
      ["State", found.state],
      ["Weight", found.weight === null ? "" : String(found.weight)],
      ...shares,
      ["Jobs", Object.entries(found.jobs).filter(([, count]) => count).map(([phase, count]) => `${count} ${phase}`).join(", ")],
      ["First queued", found.line.map((key) => link(open, "job", key))],
    ]),
  ];
}

const KINDS = { job, node, queue };
const AGES = 10e3; // so often they are written anew, unless the focus is in the panel, which would lose it
let from = null;
let drawn = { parts: [], at: 0 };

// What the panel is made of: rows are the same objects as long as nothing of them changes.
function parts(picture, { kind, name }) {
  const row = picture[`${kind}s`].find((one) => (kind === "job" ? one.key : one.name) === name);
  const left = kind === "job" ? picture.timeline.filter((entry) => entry.job === name) : [];
  return [kind, name, picture.past, row, ...left];
}

function settled(panel, found) {
  const same = found.length === drawn.parts.length && found.every((part, index) => part === drawn.parts[index]);
  const focused = panel.contains(document.activeElement) && document.activeElement !== panel;
  return same && (focused || Date.now() - drawn.at < AGES);
}

export function show(picture, opened, open, now, all) {
  const panel = $("detail");
  panel.hidden = opened === null;
  if (opened === null) {
    from?.focus?.();
    from = null;
    drawn = { parts: [], at: 0 };
    panel.dataset.of = "";
    return;
  }
  const fresh = panel.dataset.of !== `${opened.kind} ${opened.name}`;
  if (fresh) from ??= document.activeElement;
  const found = parts(picture, opened);
  if (settled(panel, found)) return;
  drawn = { parts: found, at: Date.now() };
  panel.dataset.of = `${opened.kind} ${opened.name}`;
  $("d-title").textContent = `${opened.kind[0].toUpperCase()}${opened.kind.slice(1)} ${opened.name}`;
  $("d-body").replaceChildren(...KINDS[opened.kind](picture, opened.name, open, now, all));
  if (fresh) panel.focus();
}
