'use strict';
// The picture of the nodes: a canvas as large as what is seen of it, drawn again when it is scrolled. Every
// tile is a node, every bar in it a NUMA node: from below CPUs that only the shared pool can have, exclusive ones, those of
// pods' pools, stranded ones, and at the top what is free.
const bar = 7, gap = 6, height = 34, head = 22, margin = 8;

// Part of NUMA, by position; see tile in fleet.go.
export const SHARED = 1, EXCLUSIVE = 2, POOLED = 3, FREE = 4, STRANDED = 5;
export const sum = (node, part) => node.numa.reduce((all, n) => all + n[part], 0);

export class Tiles {
  constructor(scroller, canvas, space) {
    Object.assign(this, { scroller, canvas, space, groups: [], places: [], order: [], at: -1, look: () => 'plain', chosen: -1, drawn: 0 });
    this.colours();
    scroller.addEventListener('scroll', () => this.soon());
    new ResizeObserver(() => this.layout()).observe(scroller);
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

  // show takes groups of nodes, each { title, nodes }, in their order.
  show(groups) {
    this.groups = groups;
    this.order = groups.flatMap((g) => g.nodes);
    if (this.at >= this.order.length) this.at = -1;
    this.layout();
  }

  layout() {
    const width = this.scroller.clientWidth, seen = this.scroller.clientHeight;
    if (!width) return;
    this.places = [];
    let y = margin;
    for (const g of this.groups) {
      if (g.title) { g.y = y; y += head; }
      let x = margin;
      for (const node of g.nodes) {
        const w = Math.max(3, node.numa.length) * bar + 5;
        if (x > margin && x + w > width - margin) { x = margin; y += height + gap; }
        this.places.push({ x, y, w, node });
        x += w + gap;
      }
      y += height + gap + 4;
    }
    this.space.style.height = Math.max(0, y - seen) + 'px';
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = seen + 'px';
    this.canvas.width = width * scale;
    this.canvas.height = seen * scale;
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
      if (this.places[middle].y + height < y) low = middle + 1; else high = middle;
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
    for (const g of this.groups) if (g.title && g.y + head > top && g.y < top + seen) to.fillText(g.title, margin, g.y - top + 3);
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
      to.strokeRect(x + .5, y + .5, w - 1, height - 1);
    }
    this.drawn = performance.now() - begin;
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
    const { x, w, node } = place, y = place.y - top, look = this.look(node), alpha = look === 'dim' ? 0.22 : 1, most = height - 6;
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
      if (x >= p.x && x < p.x + p.w && y >= p.y && y < p.y + height) return i;
    }
    return -1;
  }

  // step is the position that a key leads to.
  step(key) {
    const n = this.places.length, at = this.at;
    if (!n) return -1;
    if (at < 0) return 0;
    const here = this.places[at], page = Math.max(1, Math.floor(this.scroller.clientHeight / (height + gap)) - 1);
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
      else if (p.y + height > this.scroller.scrollTop + this.scroller.clientHeight - margin) this.scroller.scrollTop = p.y + height + margin - this.scroller.clientHeight;
    }
    this.soon();
  }
}
