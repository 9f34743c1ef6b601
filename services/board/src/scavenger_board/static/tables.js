// Nodes, queues, timeline and jobs: rows of what a picture has, each a button that opens the panel of what it names.
import { $, el, rows, setText } from "./dom.js";
import { ago, amount, clock, cpuTime, percent, plural } from "./format.js";

export const MOST_TILES = 2000;
export const MOST_ROWS = 200;

function rest(parent, hidden, noun) {
  let line = parent.nextElementSibling;
  if (!line?.classList.contains("rest")) {
    line = el("p", { class: "rest" });
    parent.after(line);
  }
  setText(line, hidden > 0 ? `… and ${plural(hidden, noun)} that are not shown` : "");
}

const width = (value, whole) => `${whole ? Math.min(100, (100 * value) / whole) : 0}%`;

function tileBar(share) {
  const bar = el("span", { class: "bar" });
  if (!share.allocatable) {
    bar.append(el("i", { class: "used" }));
    bar.firstChild.style.width = `${Math.min(100, share.load ?? 0)}%`;
    return bar;
  }
  const [ordinary, scavenger, used] = ["ordinary", "scavenger", "used"].map((kind) => el("i", { class: kind }));
  ordinary.style.width = width(share.ordinary, share.allocatable);
  scavenger.style.left = ordinary.style.width;
  scavenger.style.width = width(share.scavenger + share.reclaimed, share.allocatable);
  used.style.width = width(share.used ?? 0, share.allocatable);
  bar.append(ordinary, scavenger, used);
  return bar;
}

export function nodes(picture, open) {
  const shown = picture.nodes.slice(0, MOST_TILES);
  rows(
    $("nodes"),
    shown,
    (node) => node.name,
    (node) => el("button", { type: "button", class: "tile", onclick: () => open("node", node.name) }),
    (tile, node) => {
      tile.classList.toggle("out", node.note !== "");
      tile.classList.toggle("hot", Math.max(node.cpu.load ?? 0, node.memory.load ?? 0) >= 90);
      const figures = `cpu ${percent(node.cpu.load)}, memory ${percent(node.memory.load)}`;
      tile.title = `${node.name}: ${figures}${node.note ? `, ${node.note}` : ""}, ${plural(node.jobs.length, "job")}`;
      tile.setAttribute("aria-label", tile.title);
      tile.replaceChildren(el("b", {}, node.name), tileBar(node.cpu), tileBar(node.memory));
    },
  );
  const out = picture.nodes.filter((node) => node.note).length;
  setText($("n-nodes"), picture.nodes.length ? `${picture.nodes.length}, fullest first${out ? `; ${out} closed` : ""}; bars: cpu, memory` : "not known");
  rest($("nodes"), picture.nodes.length - shown.length, "node");
}

function share(queue) {
  if (!queue.deserved || !Object.keys(queue.deserved).length) return "its share is not known";
  return Object.entries(queue.deserved)
    .filter(([name]) => name === "cpu" || name === "memory" || queue.allocated?.[name]) // what nobody asks for is in the panel
    .map(([name, value]) => `${amount(name, queue.allocated?.[name] ?? 0)} of ${amount(name, value)} ${name}`)
    .join(", ");
}

export function queues(picture, open) {
  rows(
    $("queues"),
    picture.queues,
    (queue) => queue.name,
    (queue) => el("button", { type: "button", class: "row queue", onclick: () => open("queue", queue.name) }),
    (row, queue) => {
      const over = queue.over?.length ? `more than its share of ${queue.over.join(" and ")}` : "";
      const running = (queue.jobs.running ?? 0) + (queue.jobs.starting ?? 0);
      row.replaceChildren(
        el("span", { class: "name" }, queue.name, queue.weight ? ` · weight ${queue.weight}` : "", queue.state && queue.state !== "Open" ? ` · ${queue.state}` : ""),
        el("span", {}, `${running} running, ${queue.inLine} in line`),
        el("span", { class: "sub" }, share(queue), over ? el("b", { class: "bad" }, ` · ${over}`) : null),
      );
    },
  );
}

export function cost(entry) {
  if (entry.kind !== "left") return "";
  if (entry.lost === null) return "cost not known";
  return `${entry.atMost ? "at most " : ""}${cpuTime(entry.lost)} lost`;
}

export function entryRow(open) {
  return [
    (entry) => (open && entry.job ? el("button", { type: "button", class: "row entry", onclick: () => open("job", entry.job) }) : el("div", { class: "row entry" })),
    (row, entry) => {
      const left = entry.kind === "left";
      const whom = entry.whom ? `for ${entry.whom}` : left && entry.cause === "Preempted" ? "for whom is not known" : "";
      row.replaceChildren(
        el("time", { dateTime: entry.at, title: entry.at }, clock(entry.at)),
        el("span", { class: "name" }, left ? entry.job : `levels: ${entry.cause}`),
        el("span", {}, cost(entry)),
        el("span", { class: "sub" }, [left ? entry.cause || "cause not known" : "", whom, left ? entry.means : entry.says].filter(Boolean).join(" · ")),
      );
    },
  ];
}

export function timeline(picture, open) {
  const shown = picture.timeline.slice(0, MOST_ROWS);
  rows($("timeline"), shown, (entry) => entry.id, ...entryRow(open));
  rest($("timeline"), picture.timeline.length - shown.length, "older line");
}

export function hour(picture, end) {
  const left = picture.timeline.filter((entry) => entry.kind === "left" && end - Date.parse(entry.at) <= 3600e3);
  const priced = left.filter((entry) => entry.lost !== null);
  const lost = priced.reduce((sum, entry) => sum + entry.lost, 0);
  const open = left.length - priced.length;
  if (!left.length) return "No interruption is on record.";
  const bound = priced.some((entry) => entry.atMost) ? "at most " : "";
  return `${plural(left.length, "job")} left, ${bound}${cpuTime(lost)} lost${open ? ` (of ${open} the cost is not known)` : ""}.`;
}

const PHASES = ["Running", "Starting", "Waiting", "Interrupted", "Suspended", "Completed", "Failed", "Unknown"];
const filter = { phase: "", text: "", order: "key" };

export function matching(picture) {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (job) => {
    if (filter.phase && job.phase !== filter.phase) return false;
    const text = `${job.key} ${job.queue} ${job.phase} ${job.why} ${job.nodes.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const found = picture.jobs.filter(fits);
  if (filter.order === "place") found.sort((a, b) => (a.place ?? 1e9) - (b.place ?? 1e9) || (a.queue < b.queue ? -1 : 1));
  else if (filter.order !== "key") found.sort((a, b) => (b[filter.order] ?? -1) - (a[filter.order] ?? -1));
  return found;
}

export function jobs(picture, open) {
  const found = matching(picture);
  const shown = found.slice(0, MOST_ROWS);
  rows(
    $("jobs"),
    shown,
    (job) => job.key,
    (job) => el("button", { type: "button", class: "row job", onclick: () => open("job", job.key) }),
    (row, job) => {
      const place = job.place ? `, ${job.place}. in line` : "";
      const lost = job.lost ? ` · ${cpuTime(job.lost)} lost` : "";
      const why = job.why ? `${job.why}: ${job.says || job.means}` : job.says;
      row.replaceChildren(
        el("span", { class: "name" }, job.key),
        el("span", {}, `${job.phase}${place}${lost}`),
        el("span", { class: "sub" }, `${job.queue}${why ? ` · ${why}` : ""}`),
      );
    },
  );
  setText($("n-jobs"), found.length === picture.jobs.length ? `${found.length}` : `${found.length} of ${picture.jobs.length}`);
  rest($("jobs"), found.length - shown.length, "job");
  const counts = new Map();
  for (const job of picture.jobs) counts.set(job.phase, (counts.get(job.phase) ?? 0) + 1);
  rows(
    $("phases"),
    PHASES.filter((phase) => counts.has(phase)).map((phase) => `${phase}|${counts.get(phase)}|${filter.phase === phase}`),
    (text) => text.split("|")[0],
    (text) => el("button", { type: "button", onclick: () => choose(text.split("|")[0], picture, open) }),
    (button, text) => {
      const [phase, count, pressed] = text.split("|");
      button.setAttribute("aria-pressed", pressed);
      setText(button, `${phase} ${count}`);
    },
  );
}

let redraw = () => {};

export function onFilter(callback) {
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

export function waits(picture) {
  const counts = new Map();
  for (const job of picture.jobs) {
    if (job.phase === "Waiting" || job.phase === "Interrupted") counts.set(job.why || "not said", (counts.get(job.why || "not said") ?? 0) + 1);
  }
  const parts = [...counts].sort((a, b) => b[1] - a[1]).map(([why, count]) => `${count} ${why}`);
  return parts.length ? `In line: ${parts.join(", ")}.` : "Nobody is in line.";
}

export function since(stamp, now) {
  return stamp ? `since ${stamp} (${ago(stamp, now)})` : "";
}
