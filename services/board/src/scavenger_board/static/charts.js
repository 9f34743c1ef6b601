// Load and levels over time, a chart for each resource.
import { el } from "./dom.js";

const NAMES = ["load", "lower", "admission", "upper"];
const MOST = 2000;
const charts = new Map();
let pick = () => {};

export function onPick(callback) {
  pick = callback;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function moments(_chart, ticks) {
  const end = ticks.length > 1 && ticks[1] - ticks[0] < 60 ? 19 : 16; // seconds, where there are several in a minute
  return ticks.map((tick) => new Date(tick * 1000).toISOString().slice(11, end));
}

function make(parent, resource, data) {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const strokes = { load: colour("--text"), lower: colour("--good"), admission: colour("--warn"), upper: colour("--bad") };
  const value = (_chart, figure) => (figure === null || figure === undefined ? "–" : `${figure.toFixed(1)} %`);
  const box = el("div", { role: "img", "aria-label": `${resource}: load against its levels over time` });
  parent.append(box);
  const chart = new window.uPlot(
    {
      title: resource,
      width: Math.max(280, box.clientWidth),
      height: 170,
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: { y: { range: [0, 100] } },
      axes: [{ ...axis, space: 75, values: moments }, { ...axis, size: 58, values: (_chart, ticks) => ticks.map((tick) => `${tick} %`) }],
      series: [
        { label: "UTC", value: (_chart, at) => (at ? new Date(at * 1000).toISOString().slice(11, 19) : "–") },
        ...NAMES.map((name) => ({ label: name, stroke: strokes[name], width: name === "load" ? 2 : 1, dash: name === "load" ? [] : [6, 4], value, spanGaps: false })),
      ],
    },
    data,
    box,
  );
  chart.over.addEventListener("click", () => {
    const at = chart.data[0][chart.cursor.idx];
    if (at) pick(new Date(at * 1000));
  });
  return { chart, box };
}

export function draw(parent, load) {
  const resources = Object.keys(load.lines);
  for (const [resource, { chart, box }] of charts) {
    if (resources.includes(resource)) continue;
    chart.destroy();
    box.remove();
    charts.delete(resource);
  }
  for (const resource of resources) {
    const data = [load.times, ...NAMES.map((name) => load.lines[resource][name] ?? load.times.map(() => null))];
    const known = charts.get(resource);
    if (known) known.chart.setData(data);
    else charts.set(resource, make(parent, resource, data));
  }
}

// A point of now at the end of the lines, unless it is there.
export function append(load, levels) {
  const at = Date.parse(levels.observedAt) / 1000;
  if (!levels.observedAt || levels.visibility !== "Fresh" || (load.times.at(-1) ?? 0) >= at) return false;
  const before = load.times.length;
  load.times.push(at);
  for (const [resource, row] of Object.entries(levels.resources)) {
    const lines = (load.lines[resource] ??= Object.fromEntries(NAMES.map((name) => [name, Array(before).fill(null)])));
    for (const name of NAMES) lines[name].push(row[name]);
  }
  for (const lines of Object.values(load.lines)) for (const line of Object.values(lines)) if (line.length === before) line.push(null);
  if (load.times.length > MOST) {
    load.times.shift();
    for (const lines of Object.values(load.lines)) for (const line of Object.values(lines)) line.shift();
  }
  return true;
}

export function restyle(parent, load) {
  for (const { chart, box } of charts.values()) {
    chart.destroy();
    box.remove();
  }
  charts.clear();
  draw(parent, load);
}

window.addEventListener("resize", () => {
  for (const { chart, box } of charts.values()) chart.setSize({ width: Math.max(280, box.clientWidth), height: 170 });
});
