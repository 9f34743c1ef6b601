// Elements from texts: what a user has written is only ever put in as text, and the page's policy forbids all else.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function setText(node, text, kind = null) {
  if (node.textContent !== text) node.textContent = text;
  if (kind !== null) for (const one of ["good", "bad", "warn"]) node.classList.toggle(one, one === kind);
}

// What a list says in place of rows that it does not have, or of more than it shows.
export function note(parent, text, kind = "rest") {
  const after = parent.closest("table") ?? parent;
  let line = after.nextElementSibling;
  if (!line?.matches(".rest, .empty")) {
    line = el("p");
    after.after(line);
  }
  line.className = kind;
  setText(line, text);
}

export const SIGNS = { good: "✓", warn: "◆", bad: "▲", "": "" };

// A figure of a tile: its sign says in shape what its color says.
export function figure(id, value, unit = "", kind = "") {
  const text = `${SIGNS[kind]} ${value} ${unit}|${kind}`;
  if ($(id).shown === text) return;
  $(id).shown = text;
  $(id).className = `figure ${kind}`;
  $(id).replaceChildren(SIGNS[kind] ? el("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `) : "", value, unit ? el("small", {}, ` ${unit}`) : "");
}

// Has `parent` hold one element for each item, in order, and keeps those that are there: focus and scroll stay.
export function rows(parent, items, keyOf, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = null;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    known.delete(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    if (child.item !== item) {
      child.item = item;
      update(child, item);
    }
    const next = place === null ? parent.firstChild : place.nextSibling;
    if (next !== child) parent.insertBefore(child, next);
    place = child;
  }
  for (const child of known.values()) child.remove();
}
