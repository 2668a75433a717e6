'use strict';
// The picture of the nodes: a canvas as large as what is seen of it, drawn again when it is scrolled. Every
// tile is a node, or several nodes that look the same, with their number. Every bar in it is a NUMA node: from below CPUs
// that only the shared pool can have, exclusive ones, those of pods' pools, stranded ones, and at the top what is free.
const gap = 6, head = 22, margin = 8;

// The sizes of tiles: few are larger, and have room for a name. at is the number up to which a size is for.
const sizes = [
  { at: 40, bar: 14, height: 68, least: 112, label: 15 },
  { at: 150, bar: 10, height: 50, least: 46, label: 14 },
  { at: Infinity, bar: 7, height: 34, least: 26, label: 0 },
];
// The number of equal nodes needs this much room below and beside.
const counted = { label: 13, least: 34 };

// Part of NUMA, by position; see tile in fleet.go.
export const SHARED = 1, EXCLUSIVE = 2, POOLED = 3, FREE = 4, STRANDED = 5;
export const sum = (node, part) => node.numa.reduce((all, n) => all + n[part], 0);

// cut shortens a text to a width.
function cut(to, text, width) {
  if (to.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && to.measureText(text.slice(0, n) + '…').width > width) n--;
  return text.slice(0, n) + '…';
}

export class Tiles {
  constructor(scroller, canvas, space) {
    Object.assign(this, { scroller, canvas, space, groups: [], places: [], order: [], at: -1, look: () => 'plain', chosen: -1, drawn: -1, size: sizes[2], high: 34 });
    this.colours();
    scroller.addEventListener('scroll', () => this.soon());
    new ResizeObserver(() => requestAnimationFrame(() => { this.layout(); this.draw(); })).observe(scroller);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.colours(); this.soon(); });
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    this.c = {};
    for (const name of ['ink', 'soft', 'paper', 'line', 'mark', 'bad', 'good', 'exclusive', 'pooled', 'shared', 'free', 'stranded']) this.c[name] = style.getPropertyValue('--' + name).trim();
    const hatch = document.createElement('canvas');
    hatch.width = hatch.height = 4;
    const to = hatch.getContext('2d');
    to.fillStyle = this.c.free;
    to.fillRect(0, 0, 4, 4);
    to.strokeStyle = this.c.stranded;
    to.lineWidth = 1.6;
    for (const x of [-4, 0, 4]) { to.beginPath(); to.moveTo(x, 4); to.lineTo(x + 4, 0); to.stroke(); }
    this.hatch = hatch;
  }

  // show takes groups, each { title, sets }, in their order. A set has the nodes of one tile. order has the first
  // node of every tile.
  show(groups) {
    this.groups = groups;
    this.order = groups.flatMap((g) => g.sets.map((s) => s[0]));
    if (this.at >= this.order.length) this.at = -1;
    this.layout();
  }

  // find is the position of the tile with the node of a name, -1 for none.
  find(name) { return name ? this.places.findIndex((p) => p.nodes.some((n) => n.name === name)) : -1; }

  layout() {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const most = this.order.length, merged = this.groups.some((g) => g.sets.some((s) => s.length > 1));
    this.size = sizes.find((s) => most <= s.at);
    const label = Math.max(this.size.label, merged ? counted.label : 0), least = Math.max(this.size.least, merged ? counted.least : 0);
    this.label = label;
    this.high = this.size.height + label;
    this.places = [];
    let y = margin;
    for (const g of this.groups) {
      if (g.title) { g.y = y; y += head; }
      let x = margin;
      for (const nodes of g.sets) {
        const w = Math.min(width - 2 * margin, Math.max(least, nodes[0].numa.length * this.size.bar + 5));
        if (x > margin && x + w > width - margin) { x = margin; y += this.high + gap; }
        this.places.push({ x, y, w, node: nodes[0], nodes });
        x += w + gap;
      }
      y += this.high + gap + 4;
    }
    // As high as the tiles, up to the limit of the style sheet.
    const border = this.scroller.offsetHeight - this.scroller.clientHeight, limit = parseFloat(getComputedStyle(this.scroller).maxHeight) || Infinity;
    this.scroller.style.height = Math.min(limit, Math.ceil(y) + border) + 'px';
    const seen = this.scroller.clientHeight;
    this.space.style.height = Math.max(0, y - seen) + 'px';
    const scale = window.devicePixelRatio || 1;
    for (const [side, n] of [['width', width], ['height', seen]]) {
      this.canvas.style[side] = n + 'px';
      if (this.canvas[side] !== Math.round(n * scale)) this.canvas[side] = Math.round(n * scale); // Setting it clears the picture.
    }
    this.soon();
  }

  soon() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  // first is the position of the first place that ends below y.
  first(y) {
    let low = 0, high = this.places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.places[middle].y + this.high < y) low = middle + 1; else high = middle;
    }
    return low;
  }

  draw() {
    const begin = performance.now(), to = this.canvas.getContext('2d'), scale = window.devicePixelRatio || 1, top = this.scroller.scrollTop, seen = this.scroller.clientHeight;
    to.setTransform(scale, 0, 0, scale, 0, 0);
    to.fillStyle = this.c.paper;
    to.fillRect(0, 0, this.scroller.clientWidth, seen);
    to.font = '600 13px system-ui, sans-serif';
    to.textBaseline = 'top';
    to.fillStyle = this.c.ink;
    for (const g of this.groups) if (g.title && g.y + head > top && g.y < top + seen) to.fillText(cut(to, g.title, this.scroller.clientWidth - 2 * margin), margin, g.y - top + 3);
    this.fills = new Map();
    const frames = [];
    for (let i = this.first(top); i < this.places.length && this.places[i].y < top + seen; i++) this.tile(this.places[i], top, i, frames);
    const hatch = to.createPattern(this.hatch, 'repeat');
    for (const [key, path] of this.fills) {
      const [colour, alpha] = key.split('|');
      to.globalAlpha = Number(alpha);
      to.fillStyle = colour === 'hatch' ? hatch : colour === 'edge' ? this.c.line : colour;
      to.fill(path);
    }
    to.globalAlpha = 1;
    for (const [x, y, w, colour, width] of frames) {
      to.strokeStyle = colour;
      to.lineWidth = width;
      to.strokeRect(x + .5, y + .5, w - 1, this.size.height - 1);
    }
    if (this.label) this.labels(top, seen);
    this.drawn = performance.now() - begin;
  }

  // labels writes below the tiles how many nodes they are, or the name of the node if there is room for names.
  labels(top, seen) {
    const to = this.canvas.getContext('2d');
    to.font = '11px system-ui, sans-serif';
    to.textAlign = 'center';
    for (let i = this.first(top); i < this.places.length && this.places[i].y < top + seen; i++) {
      const { x, y, w, node, nodes } = this.places[i];
      let text = nodes.length > 1 ? '× ' + nodes.length.toLocaleString('en') : this.size.at <= 40 ? node.name : '';
      if (!text) continue;
      // The end of a name is what differs.
      for (let n = text.length; n > 3 && to.measureText(text).width > w + gap - 2; n--) text = '…' + node.name.slice(-n + 1);
      to.globalAlpha = this.look(node, nodes) === 'dim' ? 0.4 : 1;
      to.fillStyle = nodes.length > 1 ? this.c.ink : this.c.soft;
      to.fillText(text, x + w / 2, y - top + this.size.height + 2);
    }
    to.globalAlpha = 1;
    to.textAlign = 'left';
  }

  // rect puts a rectangle to those of its colour: they are filled together, which is much faster.
  rect(colour, alpha, x, y, w, h) {
    if (h <= 0) return;
    const key = colour + '|' + alpha;
    let path = this.fills.get(key);
    if (!path) this.fills.set(key, path = new Path2D());
    path.rect(x, y, w, h);
  }

  tile(place, top, i, frames) {
    const { x, w, node, nodes } = place, y = place.y - top, look = this.look(node, nodes), alpha = look === 'dim' ? 0.22 : 1, height = this.size.height, most = height - 6;
    const bar = Math.max(2, Math.floor((w - 5) / node.numa.length));
    this.rect(this.c.line, 1, x, y, w, height);
    this.rect(this.c.free, 1, x + 1, y + 1, w - 2, height - 2);
    node.numa.forEach((numa, k) => {
      const all = numa[SHARED] + numa[EXCLUSIVE] + numa[POOLED] + numa[FREE], left = x + 3 + k * bar;
      let bottom = y + height - 3;
      const part = (n, colour) => {
        const h = all ? n / all * most : 0;
        this.rect(colour, alpha, left, bottom - h, bar - 1, h);
        bottom -= h;
      };
      part(numa[SHARED], this.c.shared);
      part(numa[EXCLUSIVE], this.c.exclusive);
      part(numa[POOLED], this.c.pooled);
      part(numa[STRANDED] / 100, 'hatch');
      // A line around the free part shows how much it is. It is painted after the tile that it is in.
      const h = Math.max(0, bottom - y - 3);
      for (const [at, top, w, high] of [[left, y + 3, bar - 1, 1], [left, y + 3, 1, h], [left + bar - 2, y + 3, 1, h], [left, bottom - 1, bar - 1, 1]]) this.rect('edge', alpha, at, top, w, Math.min(high, h));
    });
    if (look === 'lands') frames.push([x, y, w, this.c.good, 4]);
    if (i === this.chosen) frames.push([x, y, w, this.c.mark, 3]);
    if (i === this.at && document.activeElement === this.scroller) frames.push([x, y, w, this.c.ink, 2]);
  }

  // under is the position of the node at a point of the screen, -1 for none.
  under(clientX, clientY) {
    const box = this.scroller.getBoundingClientRect(), x = clientX - box.left - this.scroller.clientLeft, y = clientY - box.top - this.scroller.clientTop + this.scroller.scrollTop;
    for (let i = this.first(y); i < this.places.length && this.places[i].y <= y; i++) {
      const p = this.places[i];
      if (x >= p.x && x < p.x + p.w && y >= p.y && y < p.y + this.high) return i;
    }
    return -1;
  }

  // step is the position that a key leads to.
  step(key) {
    const n = this.places.length, at = this.at;
    if (!n) return -1;
    if (at < 0) return 0;
    const here = this.places[at], page = Math.max(1, Math.floor(this.scroller.clientHeight / (this.high + gap)) - 1);
    const row = (i, rows) => {
      // The nearest node, as many rows on.
      const step = Math.sign(rows);
      for (let left = Math.abs(rows); left > 0; left--) {
        let k = i;
        while (k + step >= 0 && k + step < n && this.places[k + step].y === this.places[i].y) k += step;
        k += step;
        if (k < 0 || k >= n) break;
        const y = this.places[k].y;
        let best = k;
        for (; k >= 0 && k < n && this.places[k].y === y; k += step) if (Math.abs(this.places[k].x - here.x) < Math.abs(this.places[best].x - here.x)) best = k;
        i = best;
      }
      return i;
    };
    switch (key) {
      case 'ArrowRight': return Math.min(n - 1, at + 1);
      case 'ArrowLeft': return Math.max(0, at - 1);
      case 'ArrowDown': return row(at, 1);
      case 'ArrowUp': return row(at, -1);
      case 'PageDown': return row(at, page);
      case 'PageUp': return row(at, -page);
      case 'Home': return 0;
      case 'End': return n - 1;
    }
    return -1;
  }

  // go makes a node the current one and shows it.
  go(i) {
    this.at = i;
    const p = this.places[i];
    if (p) {
      if (p.y < this.scroller.scrollTop + margin) this.scroller.scrollTop = p.y - margin - head;
      else if (p.y + this.high > this.scroller.scrollTop + this.scroller.clientHeight - margin) this.scroller.scrollTop = p.y + this.high + margin - this.scroller.clientHeight;
    }
    this.soon();
  }
}
