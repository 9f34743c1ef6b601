// Figures as a person reads them. Nothing here makes HTML: texts only.

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

export function cpuTime(seconds) {
  if (seconds === null || seconds === undefined) return "not known";
  if (seconds < 120) return `${Math.round(seconds)} CPU-s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} CPU-min`;
  return `${(seconds / 3600).toFixed(1)} CPU-h`;
}

export function percent(value) {
  return value === null || value === undefined ? "not known" : `${Number(value.toFixed(1))} %`;
}

export function amount(resource, value) {
  if (resource === "cpu") return `${Number((value / 1000).toFixed(1))}`;
  if (!/^(memory$|ephemeral-storage$|hugepages-)/.test(resource)) return String(value);
  for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]]) {
    if (value >= size) return `${Number((value / size).toFixed(1))}${unit}`;
  }
  return String(value);
}

export function clock(stamp) {
  return stamp ? stamp.slice(11, 19) : "";
}

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
