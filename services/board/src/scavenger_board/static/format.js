// Figures as a person reads them. Nothing here makes HTML: texts, and elements of texts.
import { el } from "./dom.js";

export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s} s`;
  if (s < 3 * 3600) return `${Math.floor(s / 60)} min`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}

export function ago(stamp, now) {
  return stamp ? `${span((now - Date.parse(stamp)) / 1000)} ago` : "";
}

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hour12: false });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hour12: false });

export const local = (stamp) => LOCAL.format(new Date(stamp));
export const clock = (stamp) => CLOCK.format(new Date(stamp));
export const stamp = (at) => at.toISOString().replace(/\.\d+Z$/, "Z");

// "5 min ago", with the time on hover; `age` writes it anew as time passes.
export function when(at, now, after = " ago") {
  const made = el("time", { dateTime: at, title: `${local(at)} · ${at}` });
  made.after_ = after;
  age(made, now);
  return made;
}

export function age(time, now) {
  const text = `${span((now - Date.parse(time.dateTime)) / 1000)}${time.after_ ?? " ago"}`;
  if (time.textContent !== text) time.textContent = text;
}

export function cpuTime(seconds) {
  if (seconds === null || seconds === undefined) return "not known";
  if (seconds < 120) return `${Math.round(seconds)} CPU-s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} CPU-min`;
  return `${(seconds / 3600).toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 })} CPU-h`;
}

export function percent(value) {
  return value === null || value === undefined ? "not known" : `${Number(value.toFixed(1))} %`;
}

export function cores(milli) {
  return (milli / 1000).toLocaleString("en", { maximumFractionDigits: milli < 10000 ? 1 : 0 });
}

export function amount(resource, value) {
  if (resource === "cpu") return `${Number((value / 1000).toFixed(1))}`;
  if (!/^(memory$|ephemeral-storage$|hugepages-)/.test(resource)) return String(value);
  for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]]) {
    if (value >= size) return `${Number((value / size).toFixed(1))}${unit}`;
  }
  return String(value);
}

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
