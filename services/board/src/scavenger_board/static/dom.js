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
