// Queues, pools of nodes and the timeline: rows of what a picture has, each a button that opens the panel of what it names.
import { $, el, note, rows, setText } from "./dom.js";
import { ago, amount, cpuTime, local, percent, plural, when } from "./format.js";

const MOST_ROWS = 200;

// What a queue has, beside the mark of what it deserves.
function share(queue, name) {
  const [mine, deserved] = [queue.allocated?.[name] ?? 0, queue.deserved[name]];
  const whole = Math.max(mine, deserved) * 1.1 || 1;
  const bar = el("span", { class: "bar" }, el("i"), el("i", { class: "mine" }));
  bar.children[0].style.width = `${(100 * mine) / whole}%`;
  bar.children[1].style.left = `${(100 * deserved) / whole}%`;
  return el("span", { class: "share" }, el("span", {}, name), bar, el("span", {}, `${amount(name, mine)} of ${amount(name, deserved)} deserved`));
}

function shares(queue) {
  const names = Object.keys(queue.deserved ?? {}).filter((name) => name === "cpu" || name === "memory" || queue.allocated?.[name]);
  return names.length ? names.map((name) => share(queue, name)) : [el("span", { class: "sub" }, "share not known")];
}

export function queues(picture, open) {
  rows(
    $("queues"),
    picture.queues,
    (queue) => queue.name,
    (queue) => el("button", { type: "button", class: "row", onclick: () => open("queue", queue.name) }),
    (row, queue) => {
      const running = (queue.jobs.running ?? 0) + (queue.jobs.starting ?? 0);
      row.replaceChildren(
        el("span", { class: "name" }, queue.name, queue.weight ? ` · weight ${queue.weight}` : "", queue.state && queue.state !== "Open" ? ` · ${queue.state}` : ""),
        el("span", {}, `${running} running, ${queue.inLine} queued`),
        ...shares(queue),
        queue.over?.length ? el("span", { class: "sub bad" }, `▲ more than its share of ${queue.over.join(" and ")}`) : "",
      );
    },
  );
  note($("queues"), picture.queues.length ? "" : "There is no queue yet, so jobs go to the queue default. To create one: kubectl sj queue create NAME", "empty");
}

const word = (levels) => (levels.visibility === "Fresh" || levels.visibility === "Past" ? levels.state : levels.visibility);

function loads(resources) {
  const known = Object.entries(resources).filter(([, one]) => one.load !== null);
  return known.map(([name, one]) => `${name} ${percent(one.load)}${one.upper === null ? "" : ` of ${percent(one.upper)}`}`).join(", ") || "load not known";
}

// Pools of nodes with levels of their own; where there is one, the tiles say it all.
export function pools(picture) {
  $("of-pools").hidden = !picture.pools.length;
  setText($("n-pools"), picture.pools.length ? `${picture.pools.length}, each with its own load; the tiles and the chart show the default pool` : "");
  rows(
    $("pools"),
    picture.pools,
    (pool) => pool.name,
    () => el("div", { class: "row" }),
    (row, { name, nodes, levels, admission }) => {
      const share = levels.preemptiblePercentage === null ? "" : ` · ${percent(levels.preemptiblePercentage)} preemptible`;
      row.replaceChildren(
        el("span", { class: "name" }, [name, nodes === null ? "" : plural(nodes, "node"), word(levels)].filter(Boolean).join(" · ")),
        el("span", { class: levels.above?.length ? "bad" : "" }, `${levels.above?.length ? "▲ " : ""}${loads(levels.resources)}${share}`),
        el("span", { class: "sub" }, picture.past ? admission.says : `Starts new jobs? ${admission.says}`),
      );
    },
  );
}

export function cost(entry) {
  if (entry.kind !== "left") return "";
  if (entry.lost === null) return "cost not known";
  return `${entry.atMost ? "at most " : ""}${cpuTime(entry.lost)} lost`;
}

export function entryRow(open, now) {
  return [
    (entry) => (open && entry.job ? el("button", { type: "button", class: "row entry", onclick: () => open("job", entry.job) }) : el("div", { class: "row entry" })),
    (row, entry) => {
      const left = entry.kind === "left";
      const whom = entry.whom ? `for ${entry.whom}` : left && entry.cause === "Preempted" ? "for an unknown pod" : "";
      row.replaceChildren(
        el("span", { class: "name" }, left ? entry.job : `state ${entry.cause}`),
        el("span", {}, cost(entry), left ? " · " : "", when(entry.at, now)),
        el("span", { class: "sub" }, [left ? entry.cause || "cause not known" : "", whom, left ? entry.means : entry.says].filter(Boolean).join(" · ")),
      );
    },
  ];
}

export function timeline(picture, open, now) {
  const shown = picture.timeline.slice(0, MOST_ROWS);
  rows($("timeline"), shown, (entry) => entry.id, ...entryRow(open, now));
  const hidden = picture.timeline.length - shown.length;
  if (shown.length) note($("timeline"), hidden ? `… and ${plural(hidden, "older line")}` : "");
  else note($("timeline"), "No interruption is recorded. The API server keeps Events for an hour, and jobs keep their last interruptions.", "empty");
}

// Who left in the hour before a moment, and what that cost as far as anything says so.
export function hour(picture, end) {
  const left = picture.timeline.filter((entry) => entry.kind === "left" && end - Date.parse(entry.at) <= 3600e3);
  const priced = left.filter((entry) => entry.lost !== null);
  const lost = priced.reduce((sum, entry) => sum + entry.lost, 0);
  const open = left.length - priced.length;
  if (!left.length) return { lost: 0, says: "No interruption is recorded." };
  const bound = priced.some((entry) => entry.atMost) ? "at most " : "";
  if (!priced.length) return { lost: null, says: `${plural(left.length, "job")} left; the lost CPU time is not known.` };
  return { lost, says: `${plural(left.length, "job")} left, ${bound}${cpuTime(lost)} lost${open ? ` (not known for ${open})` : ""}.` };
}

export function waits(picture) {
  const counts = new Map();
  for (const job of picture.jobs) {
    if (job.phase === "Waiting" || job.phase === "Interrupted") counts.set(job.why || "not said", (counts.get(job.why || "not said") ?? 0) + 1);
  }
  const parts = [...counts].sort((a, b) => b[1] - a[1]).map(([why, count]) => `${count.toLocaleString("en")} ${why}`);
  return parts.length ? `Queued: ${parts.join(", ")}.` : "No job is queued.";
}

export function since(stamp, now) {
  return stamp ? `since ${local(stamp)} (${ago(stamp, now)})` : "";
}
