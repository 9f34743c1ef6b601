// The panel at the side: all of one job, node or queue.
import { $, el, rows } from "./dom.js";
import { amount, cpuTime, percent, plural } from "./format.js";
import { entryRow, since } from "./tables.js";

function list(pairs) {
  const made = el("dl");
  for (const [name, text] of pairs) if (text !== "" && text !== null && text.length !== 0) made.append(el("dt", {}, name), el("dd", {}, ...[text].flat()));
  return made;
}

const link = (open, kind, name) => el("button", { type: "button", onclick: () => open(kind, name) }, name);

function why(job) {
  if (job.phase === "Waiting" || job.phase === "Interrupted") {
    if (job.why || job.says) return ["Why it waits", [job.why, job.means, job.says].filter(Boolean).join(" · ")];
    return ["Why it waits", "not known"];
  }
  return ["It says", job.says];
}

function job(picture, key, open, now) {
  const found = picture.jobs.find((one) => one.key === key);
  const left = picture.timeline.filter((entry) => entry.job === key);
  const history = el("div");
  const [make, update] = entryRow(null);
  rows(history, left, (entry) => entry.id, make, update);
  const [namespace, name] = key.split("/");
  if (!found) return [el("p", {}, "There is no such job any more, or there was none yet."), el("h3", {}, "When it left, and for whom"), history];
  const [label, says] = why(found);
  return [
    list([
      ["Phase", `${found.phase} ${since(found.since, now)}`],
      [label, says],
      ["Queue", [link(open, "queue", found.queue), found.place ? ` ${found.place}. in line` : ""]],
      ["Asks for", `${plural(found.pods, "pod")}: ${amount("cpu", found.cpu)} cpu, ${amount("memory", found.memory)} memory${found.reclaimed ? ", reclaimed capacity" : ""}`],
      ["On nodes", found.nodes.map((node) => link(open, "node", node))],
      ["Useful", cpuTime(found.useful)],
      ["Lost", `${cpuTime(found.lost)}, ${plural(found.interrupted, "interruption")}`],
      ["At risk now", found.atRisk === null ? "" : `${cpuTime(found.atRisk)} (${found.preemptionClass})`],
    ]),
    el("h3", {}, "When it left, and for whom"),
    left.length ? history : el("p", {}, found.interrupted ? "Nothing tells of it any more." : "It never had to leave."),
    picture.past ? "" : el("p", { class: "more" }, "More, with what would help: ", el("code", {}, `kubectl sj why ${name} -n ${namespace}`)),
  ];
}

function shareText(resource, one) {
  if (!one.allocatable) return percent(one.load);
  const figures = [`${amount(resource, one.ordinary)} ordinary`, `${amount(resource, one.scavenger)} scavenger`];
  if (one.reclaimed) figures.push(`${amount(resource, one.reclaimed)} reclaimed`);
  const used = one.used === null ? "" : `, ${amount(resource, one.used)} really used`;
  return `${percent(one.load)}: ${figures.join(" + ")} of ${amount(resource, one.allocatable)} requested${used}`;
}

function node(picture, name, open) {
  const found = picture.nodes.find((one) => one.name === name);
  if (!found) return [el("p", {}, "There is no such node in this picture.")];
  return [
    list([
      ["Closed", found.note],
      ["cpu", shareText("cpu", found.cpu)],
      ["memory", shareText("memory", found.memory)],
      ["Pods", picture.past ? "not known" : String(found.pods)],
      ["Jobs there", found.jobs.length ? found.jobs.map((key) => link(open, "job", key)) : picture.past ? "not known" : "none"],
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
      ["First in line", found.line.map((key) => link(open, "job", key))],
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

export function show(picture, opened, open, now) {
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
  $("d-body").replaceChildren(...KINDS[opened.kind](picture, opened.name, open, now));
  if (fresh) panel.focus();
}
