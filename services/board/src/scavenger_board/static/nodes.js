// Nodes as a heat map, on a canvas that holds thousands, and beside it as text.
import { colour } from "./charts.js";
import { $, el, note, rows, setText } from "./dom.js";
import { amount, percent, plural } from "./format.js";

const MOST_ROWS = 60;
const STEPS = [[25, "under 25 %"], [50, "25 to 50 %"], [75, "50 to 75 %"], [90, "75 to 90 %"], [Infinity, "▲ 90 % and more"]];
const SIZES = [72, 56, 40, 28, 20, 15, 12, 10];
const TALL = 400;
const TITLE = 18;
let cells = [];
let drawn = null;
let open = () => {};

const value = (node) => {
  const by = $("color").value;
  if (by === "scavenger") return node.cpu.allocatable ? (100 * (node.cpu.scavenger + node.cpu.reclaimed)) / node.cpu.allocatable : null;
  if (by !== "load") return node[by].load;
  return node.cpu.load === null && node.memory.load === null ? null : Math.max(node.cpu.load ?? 0, node.memory.load ?? 0);
};

function figures(node) {
  const share = (resource) => {
    const one = node[resource];
    const parts = one.allocatable ? `: ${amount(resource, one.ordinary)} regular + ${amount(resource, one.scavenger + one.reclaimed)} scavenger of ${amount(resource, one.allocatable)}` : "";
    return `${resource} ${percent(one.load)}${parts}`;
  };
  return [share("cpu"), share("memory"), plural(node.jobs.length, "job"), node.levels, node.pool, node.zone, node.note].filter(Boolean).join(" · ");
}

function grouped(found) {
  const by = $("group").value;
  if (!by) return [["", found]];
  const groups = new Map();
  for (const node of found) {
    const name = node[by] || `no ${by}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function layout(groups, width) {
  const title = groups.length > 1 || groups[0][0] ? TITLE : 0;
  const tall = (size) => groups.reduce((sum, [, found]) => sum + title + Math.ceil(found.length / Math.floor(width / size)) * size, 0);
  const size = SIZES.find((one) => tall(one) <= TALL) ?? SIZES.at(-1);
  const across = Math.max(1, Math.floor(width / size));
  let y = 0;
  const placed = [];
  const titles = [];
  for (const [name, found] of groups) {
    if (title) titles.push([`${name} · ${plural(found.length, "node")}`, y + title - 5]);
    y += title;
    found.forEach((node, index) => placed.push({ node, x: (index % across) * size, y: y + Math.floor(index / across) * size }));
    y += Math.ceil(found.length / across) * size;
  }
  return { size, placed, titles, height: Math.max(y, 1) };
}

function cell(ctx, { node, x, y }, size, colors) {
  const load = value(node);
  const step = load === null ? -1 : STEPS.findIndex(([limit]) => load < limit);
  const inner = size - (size > 14 ? 3 : 1);
  ctx.fillStyle = step < 0 ? colors.card : colors.heat[step];
  ctx.strokeStyle = colors.line;
  ctx.fillRect(x, y, inner, inner);
  if (step <= 0) ctx.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
  ctx.fillStyle = step >= 3 ? colors.card : colors.text;
  if (node.note) { // closed to new jobs: a stroke through it
    ctx.strokeStyle = ctx.fillStyle;
    ctx.beginPath();
    ctx.moveTo(x + 1, y + inner - 1);
    ctx.lineTo(x + inner - 1, y + 1);
    ctx.stroke();
  }
  if (size >= 40) {
    ctx.fillText(node.name.slice(-Math.floor(size / 7)), x + 3, y + 12);
    ctx.fillText(load === null ? "?" : `${step === 4 ? "▲" : ""}${Math.round(load)}`, x + 3, y + inner - 5);
  } else if (size >= 28) ctx.fillText(load === null ? "?" : String(Math.round(load)), x + 3, y + inner / 2 + 4);
  else if (step === 4) ctx.fillRect(x + inner / 2 - 1.5, y + inner / 2 - 1.5, 3, 3); // a sign beside the color
}

function paint(found) {
  const canvas = $("heat").querySelector("canvas");
  const width = $("heat").clientWidth;
  const ratio = window.devicePixelRatio || 1;
  const { size, placed, titles, height } = layout(grouped(found), width);
  cells = { placed, size };
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.hidden = !found.length;
  canvas.setAttribute("aria-label", `Heat map of ${plural(found.length, "node")}; the list beside it has the same values`);
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
  const colors = { card: colour("--card"), line: colour("--soft"), text: colour("--text"), heat: STEPS.map((_, step) => colour(`--heat-${step}`)) };
  for (const one of placed) cell(ctx, one, size, colors);
  ctx.fillStyle = colour("--soft");
  for (const [text, y] of titles) ctx.fillText(text, 0, y);
}

function list(picture, found) {
  rows(
    $("nodes"),
    found.slice(0, MOST_ROWS),
    (node) => node.name,
    (node) => el("button", { type: "button", class: "row", onclick: () => open("node", node.name) }),
    (row, node) => row.replaceChildren(el("span", { class: "name" }, node.name), el("span", { class: Math.max(node.cpu.load ?? 0, node.memory.load ?? 0) >= 90 ? "bad" : "" }, percent(value(node))), el("span", { class: "sub" }, figures(node))),
  );
  const hidden = found.length - MOST_ROWS;
  if (hidden > 0) note($("nodes"), `… and ${plural(hidden, "node")} not listed: search, or point at the map`);
  else if (found.length) note($("nodes"), "");
  else if (picture.nodes.length) note($("nodes"), "No node matches. Clear the search.", "empty");
  else note($("nodes"), picture.past ? "Not known at this moment. The board needs a Prometheus and the regulator's --per-node for it." : "There is no node yet.", "empty");
}

export function nodes(picture, opener) {
  open = opener;
  const words = $("find-node").value.toLowerCase().split(/\s+/).filter(Boolean);
  const view = [$("color").value, $("group").value, $("sort").value, $("heat").clientWidth, words.join(" "), matchMedia("(prefers-color-scheme: dark)").matches].join("|");
  if (drawn?.nodes === picture.nodes && drawn.view === view) return;
  const again = drawn?.view !== view;
  drawn = { nodes: picture.nodes, view };
  const found = picture.nodes.filter((node) => words.every((word) => `${node.name} ${node.levels} ${node.pool} ${node.zone} ${node.note}`.toLowerCase().includes(word)));
  if ($("sort").value === "name") found.sort((a, b) => (a.name < b.name ? -1 : 1));
  else if ($("color").value !== "load") found.sort((a, b) => (value(b) ?? -1) - (value(a) ?? -1));
  paint(found);
  if (again) $("nodes").replaceChildren(); // every figure may be another one
  list(picture, found);
  const out = picture.nodes.filter((node) => node.note).length;
  setText($("n-nodes"), picture.nodes.length ? `${picture.nodes.length}${out ? `, ${out} closed to new jobs (stroke)` : ""}` : "");
}

export function start(redraw) {
  for (const id of ["find-node", "color", "group", "sort"]) $(id).addEventListener("input", redraw);
  $("node-tools").addEventListener("submit", (event) => event.preventDefault());
  rows($("scale"), STEPS, ([, text]) => text, () => el("li"), (item, step) => {
    const key = el("i", { class: "k" });
    key.style.background = `var(--heat-${STEPS.indexOf(step)})`;
    item.append(key, step[1]);
  });
  const canvas = $("heat").querySelector("canvas");
  const under = (event) => cells.placed?.find(({ x, y }) => event.offsetX >= x && event.offsetX < x + cells.size && event.offsetY >= y && event.offsetY < y + cells.size);
  canvas.addEventListener("mousemove", (event) => {
    const found = under(event);
    $("tip").hidden = !found;
    if (!found) return;
    setText($("tip"), `${found.node.name}: ${figures(found.node)}`);
    $("tip").style.left = `${Math.max(0, Math.min(event.offsetX + 12, canvas.clientWidth - 330))}px`;
    $("tip").style.top = `${event.offsetY + 16}px`;
  });
  canvas.addEventListener("mouseleave", () => ($("tip").hidden = true));
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (found) open("node", found.node.name);
  });
  window.addEventListener("resize", redraw);
}
