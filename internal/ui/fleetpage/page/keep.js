'use strict';
// Parts of the page that follow the fleet: what stays the same keeps its elements, so that a change of one
// node neither rebuilds a table nor takes the focus from a button.

// keep makes the children of parent those of items, in their order. It calls make only for items that are
// new or different; key is what an item is known by.
export function keep(parent, items, key, make) {
  const before = parent.kept || new Map(), after = new Map();
  for (const item of items) {
    const text = JSON.stringify(item), name = key(item), had = before.get(name);
    after.set(name, had && had.text === text ? had : { text, made: make(item) });
  }
  parent.kept = after;
  place(parent, [...after.values()].map((k) => k.made));
}

// place makes the children of parent these, and moves only those that are elsewhere.
export function place(parent, children) {
  const wanted = new Set(children);
  for (const c of [...parent.children]) if (!wanted.has(c)) c.remove();
  children.forEach((c, i) => { if (parent.children[i] !== c) parent.insertBefore(c, parent.children[i] || null); });
}

// put sets the text of an element if it differs.
export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}
