// The page: one picture at a time, of now by the stream, or of a moment that is over.
import { append, draw, onPick, restyle } from "./charts.js";
import { show } from "./detail.js";
import { $, rows, el, setText } from "./dom.js";
import { ago, plural, span } from "./format.js";
import { Refused, follow, get, useToken } from "./source.js";
import * as tables from "./tables.js";

const SILENT = 30e3; // the server says every ten seconds that it is alive
const state = { now: null, past: null, load: null, pastLoad: null, opened: null, heard: 0, lost: "", skew: 0 };
let following = null;

const picture = () => state.past ?? state.now;
const now = () => Date.now() - state.skew; // by the clock of the board: that of this machine may be wrong
const moment = () => (state.past ? Date.parse(state.past.time) : now());

function open(kind, name) {
  state.opened = { kind, name };
  panel();
}

function panel() {
  if (picture()) show(picture(), state.opened, open, moment());
}

function connection() {
  const silent = Date.now() - state.heard > SILENT;
  if (state.past) setText($("link"), `past: ${state.past.time}`, "warn");
  else if (state.lost || silent) setText($("link"), `lost: ${state.lost || "nothing heard"}; the picture is ${state.heard ? `${span((Date.now() - state.heard) / 1000)} old` : "not here"}`, "bad");
  else setText($("link"), "live", "good");
}

function fresh() {
  const shown = picture();
  if (shown.past) {
    setText($("fresh"), `No: this is what is still known of ${shown.time}.`, "warn");
    return;
  }
  const levels = shown.levels;
  const bad = shown.services.filter((one) => one.answers === false);
  const age = levels.observedAt ? `levels observed ${ago(levels.observedAt, now())}` : "no levels are published";
  const gone = bad.length ? `; ${bad.map((one) => one.name).join(" and ")} ${bad.length === 1 ? "does" : "do"} not answer` : "";
  const current = levels.visibility === "Fresh" && !bad.length && !state.lost;
  const yes = levels.visibility === "Fresh" ? "" : ` (${levels.visibility.toLowerCase()})`;
  setText($("fresh"), `${current ? "Yes" : "Not all of it"}: ${age}${yes}${gone}.`, current ? "good" : "bad");
}

function cards() {
  const shown = picture();
  const above = shown.levels.above;
  setText($("above"), shown.levels.says, above === null ? "warn" : above.length ? "bad" : "good");
  const admits = shown.admission.admits;
  setText($("admission"), shown.admission.says, admits === null ? "warn" : admits ? "good" : "bad");
  setText($("waits"), shown.past ? "" : `${tables.waits(shown)}${shown.levels.periodSeconds ? ` The load is measured every ${shown.levels.periodSeconds} s.` : ""}`);
  hour();
  setText($("pending"), shown.waitingPods === null ? "" : `${plural(shown.waitingPods, "ordinary pod")} without a node.`);
  rows(
    $("services"),
    shown.services,
    (one) => one.name,
    () => el("li"),
    (item, one) => setText(item, `${one.name}: ${one.says}${one.replicas ? ` (${one.ready} of ${one.replicas} ready)` : ""}`, one.answers === null ? "" : one.answers ? "good" : "bad"),
  );
  rows($("unknown"), shown.unknown, (text) => text, () => el("li"), (item, text) => setText(item, text));
}

function hour() {
  setText($("hour"), tables.hour(picture(), moment()));
}

function chart() {
  const load = state.past ? state.pastLoad : state.load;
  if (!load) return;
  draw($("charts"), load);
  const none = load.problem ? `Prometheus says nothing: ${load.problem}` : "nobody remembers";
  setText($("source"), load.source ? `as ${load.source}, UTC` : none);
}

function render() {
  const shown = picture();
  if (!shown) return;
  document.body.dataset.time = shown.time;
  document.body.dataset.past = String(shown.past);
  cards();
  fresh();
  connection();
  tables.nodes(shown, open);
  tables.queues(shown, open);
  tables.timeline(shown, open);
  tables.jobs(shown, open);
  $("back").hidden = !state.past;
  if (state.opened) panel();
}

const on = {
  picture(found, whole) {
    state.now = found;
    if (state.load && append(state.load, found.levels) && !state.past) chart();
    if (whole) remember(); // the stream began, or began again: there may be a gap
    if (!state.past) render();
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

async function remember() {
  state.load = await get("/api/load").catch(() => state.load);
  if (!state.past) chart();
}

async function look(at) {
  const stamp = at.toISOString().replace(/\.\d+Z$/, "Z");
  try {
    const end = new Date(Math.min(now(), at.getTime() + 600e3)).toISOString();
    [state.past, state.pastLoad] = await Promise.all([get(`/api/at?time=${stamp}`), get(`/api/load?seconds=3600&end=${end}`)]);
    $("at").value = stamp;
    $("at").setCustomValidity("");
  } catch (error) {
    $("at").setCustomValidity(error instanceof Refused ? `${error.message}; ${error.remedy}` : error.message);
    $("at").reportValidity();
    return;
  }
  render();
  chart();
}

function back() {
  state.past = state.pastLoad = null;
  $("ago").value = 0;
  $("at").value = "";
  render();
  chart();
}

function start() {
  following?.abort();
  following = new AbortController();
  follow(on, following.signal);
}

$("moment").addEventListener("submit", (event) => {
  event.preventDefault();
  const at = new Date($("at").value);
  if ($("at").value && !Number.isNaN(at.getTime())) return look(at);
  $("at").setCustomValidity($("at").value ? "write a time as 2026-01-05T08:00:00Z" : "write a time, or move the slider");
  $("at").reportValidity();
});
$("at").addEventListener("input", () => $("at").setCustomValidity(""));
$("ago").addEventListener("change", () => ($("ago").value === "0" ? back() : look(new Date(now() - 60e3 * $("ago").value))));
$("back").addEventListener("click", back);
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
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => restyle($("charts"), (state.past ? state.pastLoad : state.load) ?? { lines: {}, times: [] }));
onPick(look);
tables.onFilter(render);
setInterval(() => {
  if (!picture()) return;
  connection();
  fresh();
  hour();
}, 1000);
start();
