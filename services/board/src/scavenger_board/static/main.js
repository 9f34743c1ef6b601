// The page: one picture at a time, of now by the stream, or of a moment that is over. What it shows has a URL.
import * as charts from "./charts.js";
import { show } from "./detail.js";
import { $, el, figure, rows, setText } from "./dom.js";
import { age, ago, cores, cpuTime, local, percent, plural, span, stamp } from "./format.js";
import * as jobs from "./jobs.js";
import * as nodes from "./nodes.js";
import { Refused, follow, get, useToken } from "./source.js";
import * as tables from "./tables.js";

const SILENT = 30e3; // the server says every ten seconds that it is alive
const BEGINNER = "Install the regulator (chart scavenger-regulator), which measures the load and publishes thresholds.";
const state = { now: null, past: null, load: null, pastLoad: null, opened: null, heard: 0, lost: "", skew: 0 };
let following = null;
let narrowed = {};

const now = () => Date.now() - state.skew; // by the clock of the board: that of this machine may be wrong
const moment = () => (state.past ? Date.parse(state.past.time) : now());

// The picture, of jobs and interruptions those of the chosen namespace.
function picture() {
  const whole = state.past ?? state.now;
  const namespace = $("namespace").value;
  if (!whole || !namespace) return whole;
  if (narrowed.of !== whole || narrowed.namespace !== namespace) {
    const mine = (key) => key.startsWith(`${namespace}/`);
    narrowed = { of: whole, namespace, picture: { ...whole, jobs: whole.jobs.filter((job) => mine(job.key)), timeline: whole.timeline.filter((entry) => !entry.job || mine(entry.job)) } };
  }
  return narrowed.picture;
}

function open(kind, name) {
  state.opened = { kind, name };
  panel();
}

function panel() {
  if (picture()) show(picture(), state.opened, open, moment(), (state.past ?? state.now).jobs);
}

// --- what the page is about ---

function connection() {
  const silent = Date.now() - state.heard > SILENT;
  if (state.past) setText($("link"), `past: ${local(state.past.time)}`, "warn");
  else if (state.lost || silent) setText($("link"), `no connection: ${state.lost || "no answer"}; the page is ${state.heard ? `${span((Date.now() - state.heard) / 1000)} old` : "empty"}`, "bad");
  else setText($("link"), "live", "good");
}

function fresh() {
  const shown = picture();
  if (shown.past) {
    setText($("fresh"), `This page shows what is known of ${local(shown.time)}, ${ago(shown.time, now())}.`, "warn");
    return;
  }
  const levels = shown.levels;
  const bad = shown.services.filter((one) => one.answers === false);
  const seen = levels.observedAt ? `load measured ${ago(levels.observedAt, now())}` : "no load is published";
  const gone = bad.length ? `; ${bad.map((one) => one.name).join(" and ")} ${bad.length === 1 ? "does" : "do"} not answer` : "";
  const current = levels.visibility === "Fresh" && !bad.length && !state.lost;
  const yes = levels.visibility === "Fresh" ? "" : ` (${levels.visibility.toLowerCase()})`;
  setText($("fresh"), `${current ? "✓ Current" : "▲ Partly out of date"}: ${seen}${yes}${gone}.`, current ? "good" : "bad");
}

function loadTile(shown) {
  const { above, resources, says, visibility } = shown.levels;
  const cpu = resources.cpu ?? {};
  const kind = above === null ? "warn" : above.length ? "bad" : "good";
  const known = above !== null && cpu.load !== null && cpu.load !== undefined;
  figure("f-load", known ? percent(cpu.load) : "not known", known && cpu.upper !== null ? `of ${percent(cpu.upper)}` : "", kind);
  setText($("above"), visibility === "Absent" ? BEGINNER : says);
}

function stateTile(shown) {
  const admits = shown.admission.admits;
  const { visibility, state: word } = shown.levels;
  const own = shown.pools.length ? shown.pools[0].admission.admits : admits; // the word is of the default pool
  const kind = own === null || visibility === "Absent" ? "warn" : own ? "good" : "bad";
  const known = visibility === "Fresh" || shown.past;
  figure("f-state", (known && word) || { Past: "not known", Absent: "no regulator" }[visibility] || visibility, "", kind);
  setText($("admission"), admits === null || shown.past ? shown.admission.says : `Starts new jobs? ${shown.admission.says}`);
}

function jobsTile(shown) {
  let running = 0;
  let queued = 0;
  for (const { phase } of shown.jobs) {
    if (phase === "Running") running++;
    else if (phase === "Waiting" || phase === "Interrupted") queued++;
  }
  figure("f-jobs", running.toLocaleString("en"), `running, ${queued.toLocaleString("en")} queued`);
  setText($("waits"), shown.past ? "" : tables.waits(shown));
  setText($("pending"), shown.waitingPods ? `${plural(shown.waitingPods, "regular pod")} without a node.` : "");
}

function hourTile(shown) {
  const { lost, says } = tables.hour(shown, moment());
  figure("f-lost", lost === 0 ? "none" : cpuTime(lost), "", lost === null ? "warn" : "");
  setText($("hour"), says);
}

function harvestTile(shown) {
  const midnight = new Date(moment());
  midnight.setHours(0, 0, 0, 0);
  let held = 0;
  for (const job of shown.jobs) if (job.phase === "Running") held += job.cpu;
  const today = jobs.held(shown.jobs, midnight / 1000, moment() / 1000);
  figure("f-harvest", cores(held), "cores");
  setText($("harvest"), shown.past
    ? "Requested by the jobs that ran then and still exist. Their useful CPU time of that day is not known."
    : `Requested by running jobs now. Today at least ${cpuTime(today)}, by jobs that still exist.`);
}

function tiles() {
  const shown = picture();
  loadTile(shown);
  stateTile(shown);
  jobsTile(shown);
  hourTile(shown);
  harvestTile(shown);
  rows(
    $("services"),
    shown.services,
    (one) => one.name,
    () => el("li"),
    (item, one) => setText(item, `${one.answers === null ? "○" : one.answers ? "✓" : "▲"} ${one.name}: ${one.silentSince ? `silent for ${span((now() - Date.parse(one.silentSince)) / 1000)}` : one.says}${one.replicas ? ` (${one.ready} of ${one.replicas} ready)` : ""}`, one.answers === null ? "" : one.answers ? "good" : "bad"),
  );
  rows($("findings"), shown.findings, (one) => one.name, () => el("li"), (item, one) => setText(item, `${one.name}: ${one.text}. What helps: ${one.remedy}`));
  rows($("unknown"), shown.unknown, (text) => text, () => el("li"), (item, text) => setText(item, text));
}

const DOCS = { board: "this page", levels: "load and thresholds", reasons: "why jobs wait", queues: "queues", troubleshooting: "troubleshooting" };

function about() {
  const { version, cluster, docs } = picture().about;
  setText($("cluster"), cluster);
  const title = `${cluster ? `${cluster}: ` : ""}scavenger jobs`;
  if (document.title !== title) document.title = title;
  setText($("about"), `scavenger-board ${version} · times are local (${Intl.DateTimeFormat().resolvedOptions().timeZone})`);
  rows($("docs"), docs ? Object.keys(DOCS) : [], (page) => page, (page) => el("a", { href: `${docs}/${page}.md`, rel: "noreferrer" }, DOCS[page]), () => {});
}

function namespaces() {
  const whole = state.past ?? state.now;
  const found = new Set(whole.jobs.map((job) => job.key.slice(0, job.key.indexOf("/"))));
  if (wanted.namespace) found.add(wanted.namespace);
  rows($("namespace"), ["", ...[...found].sort()], (name) => name, (name) => el("option", { value: name }, name || "all"), () => {});
  if ($("namespace").value !== wanted.namespace) $("namespace").value = wanted.namespace;
}

// --- the chart ---

function chart() {
  const load = state.past ? state.pastLoad : state.load;
  if (!load || !picture()) return;
  const known = charts.resources(load);
  const offered = known.length ? known : ["cpu"];
  rows($("resource"), offered, (name) => name, (name) => el("option", { value: name }, name), () => {});
  if (offered.includes(wanted.resource)) $("resource").value = wanted.resource;
  const marks = picture().timeline.filter((entry) => entry.kind === "left").map((entry) => Date.parse(entry.at) / 1000);
  $("charts").hidden = !load.times.length;
  if (load.times.length) charts.draw(load, $("resource").value, marks, state.past ? moment() / 1000 : null);
  $("legend").hidden = !load.times.length;
  const none = load.problem ? `Prometheus does not answer: ${load.problem}` : "";
  setText($("source"), load.source ? `as ${load.source}` : none);
  const parts = load.source.startsWith("the board") ? " The scavenger part is the requests of jobs, and the regular part the rest of the load." : "";
  setText($("chart-help"), load.times.length ? `Click a moment to see the cluster at that time.${parts}` : `No load is known for this time. ${BEGINNER} With a Prometheus (--prometheus-url), the board also shows older load.`);
}

// --- all of it ---

function render() {
  const shown = picture();
  if (!shown) return;
  namespaces();
  document.body.dataset.time = shown.time;
  document.body.dataset.past = String(shown.past);
  tiles();
  fresh();
  connection();
  about();
  nodes.nodes(shown, open);
  tables.pools(shown);
  tables.queues(shown, open);
  tables.timeline(shown, open, moment());
  jobs.jobs(shown, open, moment(), (state.past ?? state.now).jobs); // places are those among all
  $("back").hidden = !state.past;
  if (state.opened) panel();
}

const on = {
  picture(found, whole) {
    state.now = found;
    // what Prometheus records is divided otherwise than what this page sees: its lines are asked for again instead
    if (state.load && !recorded() && charts.append(state.load, found.levels) && !state.past) chart();
    if (!state.past && !wanted.at) render();
    if (whole) remember(); // the stream began, or began again: there may be a gap
    if (wanted.at) look(new Date(wanted.at));
  },
  heard(time) {
    state.heard = Date.now();
    state.skew = state.heard - Date.parse(time);
    state.lost = "";
    $("token").hidden = true;
    connection();
  },
  lost(why) {
    state.lost = why;
    connection();
  },
  refused(error) {
    state.lost = error.message;
    $("token").hidden = false;
    setText($("refused"), $("bearer").value ? `${error.message}: ${error.remedy}` : "");
    $("bearer").focus();
    connection();
  },
};

const recorded = () => state.load.source.startsWith("Prometheus");

async function remember() {
  state.load = await get(`/api/load?seconds=${$("span").value}`).catch(() => state.load);
  if (!state.past) chart();
}

// --- what the URL says ---

const wanted = { at: "", namespace: "", resource: "cpu", span: "3600" };

function readUrl() {
  const query = new URLSearchParams(location.search);
  for (const name of Object.keys(wanted)) wanted[name] = query.get(name) ?? { resource: "cpu", span: "3600" }[name] ?? "";
  $("span").value = wanted.span;
  if (!$("span").value) $("span").value = "3600";
}

function writeUrl(values, push = false) {
  Object.assign(wanted, values);
  const query = new URLSearchParams(Object.entries({ ...wanted, at: state.past ? state.past.time : "" }).filter(([name, value]) => value && value !== { resource: "cpu", span: "3600" }[name]));
  const url = `${location.pathname}${query.size ? `?${query}` : ""}`;
  if (url !== location.pathname + location.search) history[push ? "pushState" : "replaceState"](null, "", url);
}

async function look(at, push = true) {
  const asked = Number.isNaN(at.getTime()) ? wanted.at : stamp(at);
  wanted.at = ""; // once
  try {
    const seconds = Number($("span").value);
    const end = new Date(Math.min(now(), at.getTime() + seconds * 200)).toISOString();
    [state.past, state.pastLoad] = await Promise.all([get(`/api/at?time=${encodeURIComponent(asked)}`), get(`/api/load?seconds=${seconds}&end=${end}`)]);
    $("at").value = asked;
    $("at").setCustomValidity("");
    writeUrl({}, push);
  } catch (error) {
    if (!state.past) render();
    $("at").setCustomValidity(error instanceof Refused ? `${error.message}; ${error.remedy}` : `write a time as 2026-01-05T08:00:00Z (${error.message})`);
    $("at").reportValidity();
    return;
  }
  render();
  chart();
}

function back(push = true) {
  state.past = state.pastLoad = null;
  $("at").value = "";
  if (push) writeUrl({}, true);
  render();
  chart();
}

function save() {
  const text = JSON.stringify({ picture: picture(), load: state.past ? state.pastLoad : state.load }, null, 1);
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: `scavenger-board-${picture().time.replaceAll(":", "-")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60e3);
}

function start() {
  following?.abort();
  following = new AbortController();
  follow(on, following.signal);
}

function all() {
  render();
  chart();
}

$("moment").addEventListener("submit", (event) => {
  event.preventDefault();
  const at = new Date($("at").value);
  if ($("at").value && !Number.isNaN(at.getTime())) return look(at);
  $("at").setCustomValidity($("at").value ? "write a time as 2026-01-05T08:00:00Z, or without Z in local time" : "write a time, or click the chart");
  $("at").reportValidity();
});
$("at").addEventListener("input", () => $("at").setCustomValidity(""));
$("back").addEventListener("click", () => back());
$("export").addEventListener("click", () => picture() && save());
$("namespace").addEventListener("change", () => {
  writeUrl({ namespace: $("namespace").value });
  all();
});
$("resource").addEventListener("change", () => {
  writeUrl({ resource: $("resource").value });
  chart();
});
$("span").addEventListener("change", () => {
  writeUrl({ span: $("span").value });
  if (state.past) look(new Date(state.past.time), false);
  remember();
});
window.addEventListener("popstate", () => {
  readUrl();
  if (wanted.at) look(new Date(wanted.at), false);
  else if (state.now) back(false);
});
$("close").addEventListener("click", () => {
  state.opened = null;
  panel();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.opened) $("close").click();
  if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
    event.preventDefault();
    $("search").focus();
  }
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken($("bearer").value);
  start();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  charts.clear();
  all();
});
charts.onPick(look);
jobs.start(render);
nodes.start(render);
setInterval(() => {
  if (!picture()) return;
  connection();
  fresh();
  hourTile(picture());
  for (const time of document.querySelectorAll("time")) age(time, moment());
  jobs.tick(moment());
}, 1000);
setInterval(() => state.load && recorded() && !state.past && remember(), 15e3);
readUrl();
start();
