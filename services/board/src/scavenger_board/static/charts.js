// The load over time: one axis, with the states of the regulator below and interruptions above it.
import { $, el, rows } from "./dom.js";
import { clock, percent, plural } from "./format.js";

const LEVELS = { lower: ["--good", "fill below"], admission: ["--warn", "start below"], upper: ["--bad", "evict from"] };
const LINES = ["load", "regular", ...Object.keys(LEVELS)];
const STATES = { Filling: "--good", Speculative: "--warn", Evicting: "--bad", Blind: "--soft" };
const MOST = 3000;
const HEIGHT = 260;
const BAND = 14;
let chart = null;
let shown = { load: null, resource: "cpu", marks: [], at: null };
let pick = () => {};

export function onPick(callback) {
  pick = callback;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axisTimes(_chart, ticks) {
  const gap = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
  const date = (at) => new Date(at * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return ticks.map((tick) => (gap >= 86400 ? date(tick) : clock(tick * 1000).slice(0, gap < 60 ? 8 : 5)));
}

// What is not divided into regular and scavenger is a series of its own: its color claims nothing.
function series(load, resource) {
  const lines = load.lines[resource] ?? {};
  const [whole, regular, ...levels] = LINES.map((name) => lines[name] ?? load.times.map(() => null));
  const divided = (wanted) => whole.map((value, index) => ((regular[index] ?? null) !== null) === wanted ? value : null);
  return [load.times, divided(false), divided(true), regular, ...levels];
}

function last(values) {
  for (let index = values.length - 1; index >= 0; index--) if (values[index] !== null) return values[index];
  return null;
}

function legend() {
  if (!chart) return;
  const index = chart.cursor.idx;
  const [times, undivided, divided, regular, ...levels] = chart.data;
  const at = (values) => (index === null || index === undefined ? last(values) : values[index]);
  const [whole, mine] = [at(divided), at(regular)];
  const entries = [];
  if (whole !== null && whole !== undefined) {
    entries.push(["--scavenger", `scavenger ${percent(Math.max(0, whole - mine))}`], ["--regular", `regular ${percent(mine)}`], ["", `load ${percent(whole)}`]);
  } else entries.push(["--whole", `load ${percent(at(undivided))}`]);
  Object.entries(LEVELS).forEach(([, [color, word]], number) => entries.push([color, `${word} ${percent(at(levels[number]))}`, "line"]));
  const state = shown.load.states?.[index ?? shown.load.states.length - 1];
  if (state) entries.push([STATES[state] ?? "--soft", `state ${state}`]);
  entries.push(["--bad", `▼ ${plural(shown.marks.filter((one) => one >= times[0] && one <= times.at(-1)).length, "interruption")} shown`, "none"]);
  if (index !== null && index !== undefined) entries.unshift(["", clock(times[index] * 1000)]);
  rows($("legend"), entries, (entry) => entry[1].split(" ")[0] + entry[0], () => el("li"), (item, [color, text, kind]) => {
    const key = el("i", { class: `k ${kind ?? ""}` });
    if (kind === "line") key.style.borderColor = `var(${color})`;
    else key.style.background = `var(${color})`;
    item.replaceChildren(color && kind !== "none" ? key : "", text);
  });
}

function drawStates(u, ratio) {
  const states = shown.load.states ?? [];
  const { ctx, bbox } = u;
  const top = bbox.top + bbox.height - BAND * ratio;
  const times = u.data[0];
  for (let from = 0; from < states.length; ) {
    let to = from;
    while (to + 1 < states.length && states[to + 1] === states[from]) to++;
    const [left, right] = [times[from], times[Math.min(to + 1, times.length - 1)]].map((at) => u.valToPos(at, "x", true));
    if (states[from]) {
      ctx.fillStyle = colour(STATES[states[from]] ?? "--soft");
      ctx.globalAlpha = states[from] === "Evicting" || states[from] === "Blind" ? 0.13 : 0;
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.globalAlpha = 1;
      ctx.fillRect(left, top, Math.max(ratio, right - left), BAND * ratio);
      ctx.fillStyle = colour("--card");
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      if (ctx.measureText(states[from]).width + 8 * ratio < right - left) ctx.fillText(states[from], left + 4 * ratio, top + (BAND * ratio) / 2);
    }
    from = to + 1;
  }
}

function drawLevels(u, ratio) {
  const { ctx, bbox } = u;
  const names = Object.entries(LEVELS).map(([, [color, word]], number) => [color, word, last(u.data[4 + number])]);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  let above = -Infinity;
  for (const [color, word, value] of names.filter((one) => one[2] !== null).sort((a, b) => b[2] - a[2])) {
    const y = Math.max(u.valToPos(value, "y", true), above + 13 * ratio); // labels of near levels do not cover each other
    above = y;
    ctx.fillStyle = colour(color);
    ctx.fillText(`${word} ${Number(value.toFixed(0))} %`, bbox.left + bbox.width + 5 * ratio, y);
  }
}

function drawMarks(u, ratio) {
  const { ctx, bbox } = u;
  const bins = new Map();
  for (const at of shown.marks) {
    const x = u.valToPos(at, "x", true);
    if (x >= bbox.left && x <= bbox.left + bbox.width) bins.set(Math.round(x / (14 * ratio)), [x, (bins.get(Math.round(x / (14 * ratio)))?.[1] ?? 0) + 1]);
  }
  ctx.fillStyle = colour("--bad");
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  for (const [x, count] of bins.values()) {
    ctx.beginPath();
    ctx.moveTo(x - 5 * ratio, bbox.top);
    ctx.lineTo(x + 5 * ratio, bbox.top);
    ctx.lineTo(x, bbox.top + 8 * ratio);
    ctx.fill();
    if (count > 1) ctx.fillText(String(count), x, bbox.top + 9 * ratio);
  }
  if (shown.at === null) return;
  const x = u.valToPos(shown.at, "x", true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.fillStyle = colour("--text");
  ctx.fillRect(x - ratio, bbox.top, 2 * ratio, bbox.height);
  ctx.textBaseline = "top";
  ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
  ctx.fillText(` shown: ${clock(shown.at * 1000)} `, x, bbox.top + 10 * ratio);
}

function paint(u) {
  const ratio = window.devicePixelRatio || 1;
  u.ctx.save();
  u.ctx.font = `${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  drawStates(u, ratio);
  drawLevels(u, ratio);
  drawMarks(u, ratio);
  u.ctx.restore();
}

function make(parent, data) {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const area = (name) => ({ stroke: colour(name), fill: colour(name), width: 1, spanGaps: false, points: { show: false } });
  chart = new window.uPlot(
    {
      width: Math.max(280, parent.clientWidth),
      height: HEIGHT,
      padding: [12, 104, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { y: { range: [0, 100] } },
      axes: [{ ...axis, space: 75, size: 32, values: axisTimes }, { ...axis, size: 52, values: (_chart, ticks) => ticks.map((tick) => `${tick} %`) }],
      series: [{}, area("--whole"), area("--scavenger"), area("--regular"), ...Object.values(LEVELS).map(([color]) => ({ stroke: colour(color), width: 1.5, dash: [6, 4], spanGaps: true, points: { show: false } }))],
      hooks: { draw: [paint], setCursor: [legend] },
    },
    data,
    parent,
  );
  chart.over.addEventListener("click", () => {
    const at = chart.data[0][chart.cursor.idx];
    if (at) pick(new Date(at * 1000));
  });
}

// marks: interruptions in Unix seconds. at: the moment that the page shows, null for now.
export function draw(load, resource, marks, at) {
  const parent = $("charts");
  shown = { load, resource, marks, at };
  const data = series(load, resource);
  parent.setAttribute("role", "img");
  parent.setAttribute("aria-label", `${resource} load over time against its thresholds, states of the regulator and interruptions; last load ${percent(last(load.lines[resource]?.load ?? []))}`);
  if (chart) chart.setData(data);
  else make(parent, data);
  legend();
}

export function resources(load) {
  return Object.keys(load?.lines ?? {});
}

// A point of now at the end of the lines, unless it is there.
export function append(load, levels) {
  const at = Date.parse(levels.observedAt) / 1000;
  if (!levels.observedAt || levels.visibility !== "Fresh" || (load.times.at(-1) ?? 0) >= at) return false;
  const before = load.times.length;
  load.times.push(at);
  load.states.push(levels.state);
  for (const [resource, row] of Object.entries(levels.resources)) {
    const lines = (load.lines[resource] ??= Object.fromEntries(LINES.map((name) => [name, Array(before).fill(null)])));
    for (const name of LINES) lines[name].push(row[name]);
  }
  const all = Object.values(load.lines).flatMap((lines) => Object.values(lines));
  for (const line of all) if (line.length === before) line.push(null);
  if (load.times.length > MOST) for (const line of [load.times, load.states, ...all]) line.shift();
  return true;
}

export function clear() {
  chart?.destroy();
  chart = null;
}

window.addEventListener("resize", () => chart?.setSize({ width: Math.max(280, $("charts").clientWidth), height: HEIGHT }));
