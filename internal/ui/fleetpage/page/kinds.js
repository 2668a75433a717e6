'use strict';
// What the whole fleet has: a table with the totals of each kind of node, and a histogram of its nodes by
// free CPUs. Both choose which nodes are shown.
import { bytes, element } from './text.js';
import { keep, place, put } from './keep.js';
import { FREE, STRANDED, sum } from './tiles.js';

export const number = (n) => n.toLocaleString('en', { maximumFractionDigits: 1 });
const share = (n, of) => (of ? ' (' + Math.round(100 * n / of) + ' %)' : '');

const columns = [
  ['Nodes', (t) => number(t.nodes)],
  ['Pods', (t) => number(t.pods)],
  ['CPUs assigned', (t) => number(t.assigned) + share(t.assigned, t.assigned + t.free)],
  ['Free', (t) => number(t.free)],
  ['Stranded', (t) => number(t.stranded / 100) + share(t.stranded / 100, t.free)],
  ['Memory requested', (t) => bytes(t.memory[0] - t.memory[0] % 2 ** 30) + ' of ' + bytes(t.memory[1] - t.memory[1] % 2 ** 30)],
  ['Devices requested', (t) => t.others.filter((o) => !o.resource.startsWith('hugepages-')).map((o) => number(o.requested) + ' of ' + number(o.allocatable) + ' ' + o.resource).join(', ') || 'none'],
  ['Largest pod', (t) => (t.largest ? number(t.largest) + (t.largest === 1 ? ' CPU' : ' CPUs') : 'none')],
];

// Kinds is the table. choose is called with the name of a kind.
export class Kinds {
  constructor(head, body, choose) {
    Object.assign(this, { body, choose, rows: new Map() });
    head.replaceChildren(...['Kind', ...columns.map(([title]) => title), 'Rejected'].map((t, i) => element('th', { scope: 'col', role: 'columnheader', class: i ? 'number' : '' }, t)));
  }

  // show shows the kinds of a fleet. only is the name of the kind that is chosen.
  show(fleet, only) {
    const counted = new Map((fleet.counted ? fleet.counted.kinds : []).map((k) => [k.kind, k]));
    const kinds = fleet.kinds.map((k, i) => ({ ...k, total: fleet.totals[i] })).filter((k) => k.total && k.total.nodes);
    const rows = new Map();
    for (const k of kinds) {
      const row = this.rows.get(k.name) || this.row(k);
      rows.set(k.name, row);
      row.button.setAttribute('aria-pressed', String(k.name === only));
      put(row.policy, k.policy);
      columns.forEach(([, text], i) => put(row.cells[i], text(k.total)));
      row.cells[columns.length - 1].title = k.total.on ? 'a pod of one container with CPUs of its own, such as on ' + k.total.on : '';
      const c = counted.get(k.name);
      put(row.cells[columns.length], c ? number(c.rejected) + (c.percent ? ' (' + c.percent + ')' : '') : '');
    }
    this.rows = rows;
    place(this.body, [...rows.values()].map((r) => r.row));
    this.body.closest('table').classList.toggle('uncounted', !counted.size);
  }

  row(k) {
    const button = element('button', { type: 'button', class: 'plain', title: 'show only these nodes', onclick: () => this.choose(k.name) }, k.name);
    const policy = element('div', { class: 'faint clamp' });
    const cells = [...columns.map(([title]) => title), 'Rejected'].map((title) => element('td', { role: 'cell', class: 'number', 'data-title': title }));
    return { button, policy, cells, row: element('tr', { role: 'row' }, element('th', { scope: 'row', role: 'rowheader' }, button, policy), ...cells) };
  }
}

// The steps of the histogram: 0, 1, 2 to 3, 4 to 7 and so on.
const stepOf = (free) => (free < 1 ? 0 : 2 ** Math.floor(Math.log2(free)));
const stepText = (low) => (low < 2 ? String(low) : low < 64 ? low + '–' + (2 * low - 1) : low + '…');
export const inStep = (node, low) => stepOf(sum(node, FREE)) === low;
export const stepWords = (low) => (low < 2 ? low + (low ? ' free CPU' : ' free CPUs') : low + ' to ' + (2 * low - 1) + ' free CPUs');

// Histogram shows how many nodes have how many free CPUs, and which part of these is stranded.
export class Histogram {
  constructor(bars, choose) { Object.assign(this, { bars, choose }); }

  // show shows nodes. only is the lowest number of the step that is chosen, -1 for none.
  show(nodes, only) {
    const steps = new Map();
    for (const node of nodes) {
      const free = sum(node, FREE), low = stepOf(free), s = steps.get(low) || { low, nodes: 0, free: 0, stranded: 0 };
      s.nodes++;
      s.free += free;
      s.stranded += sum(node, STRANDED) / 100;
      steps.set(low, s);
    }
    const top = Math.max(0, ...steps.keys()), all = [];
    for (let low = 0; low <= top; low = low ? 2 * low : 1) all.push(steps.get(low) || { low, nodes: 0, free: 0, stranded: 0 });
    const most = Math.max(1, ...all.map((s) => s.nodes));
    keep(this.bars, all.map((s) => s.low), (low) => low, (low) => this.bar(low));
    all.forEach((s, i) => this.update(this.bars.children[i], s, most, s.low === only));
  }

  bar(low) {
    const button = element('button', { type: 'button', onclick: () => this.choose(low) }, element('span', { class: 'count' }), element('span', { class: 'column' }, element('i', { class: 'stranded' })), element('span', { class: 'step' }, stepText(low)));
    return element('li', {}, button);
  }

  update(item, s, most, chosen) {
    const [button] = item.children, [count, column] = button.children, stranded = s.free ? s.stranded / s.free : 0;
    put(count, s.nodes ? number(s.nodes) : '');
    column.style.height = (s.nodes ? Math.max(2, Math.round(72 * s.nodes / most)) : 0) + 'px';
    column.firstChild.style.height = Math.round(100 * stranded) + '%';
    button.disabled = !s.nodes && !chosen;
    button.setAttribute('aria-pressed', String(chosen));
    const text = number(s.nodes) + (s.nodes === 1 ? ' node with ' : ' nodes with ') + stepWords(s.low) + (s.free ? ': ' + number(s.stranded) + ' of ' + number(s.free) + ' free CPUs are stranded' : '');
    button.setAttribute('aria-label', text);
    button.title = text;
  }
}
