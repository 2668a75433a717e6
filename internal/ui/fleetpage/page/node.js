'use strict';
// The panel of one node, or of nodes that look the same.
import { $, ask, askPicture, element } from './text.js';
import { EXCLUSIVE, FREE, POOLED, SHARED, STRANDED } from './tiles.js';

const whole = (n) => String(Math.round(n * 10) / 10);
export const when = (time) => (time ? new Date(time).toLocaleString() + ', ' : '');

// listed is how many names of equal nodes are listed.
const listed = 500;

function table(titles, rows, kind) {
  return element('table', {}, element('thead', {}, element('tr', {}, ...titles.map((t) => element('th', { class: kind, scope: 'col' }, t)))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((v) => element('td', { class: kind }, String(v)))))));
}

const numaTable = (node) => table(['NUMA node', 'free', 'stranded', 'exclusive', 'in pools', 'shared only'],
  node.numa.map((n) => [n[0], n[FREE], whole(n[STRANDED] / 100), n[EXCLUSIVE], n[POOLED], n[SHARED]]), 'number');

// widthOf asks for a picture that can be read in so much room, instead of a wide one that is scaled down.
function widthOf(room) {
  if (room.clientWidth >= 1000) return '';
  return room.clientWidth >= 680 ? '?width=medium' : '?width=narrow';
}

let opened = 0, shown = null;
// forget ends what the panel waits for.
export function forget() {
  opened++;
  shown = null;
}

// equalNodes shows nodes that look the same. open is called with the name of the one that is chosen.
export function equalNodes(nodes, kind, open) {
  forget();
  $('node-title').textContent = nodes.length.toLocaleString('en') + ' equal nodes';
  $('node-body').replaceChildren(element('p', { class: 'faint' }, kind ? kind.name + ': ' + kind.policy : ''), element('p', {}, 'Each of them has these CPUs:'), numaTable(nodes[0]), element('h3', {}, 'Their names'),
    element('ul', { class: 'scroll names' }, ...nodes.slice(0, listed).map((n) => element('li', {}, element('button', { type: 'button', class: 'plain', onclick: () => open(n.name) }, n.name)))),
    nodes.length > listed ? element('p', { class: 'faint' }, 'And ' + (nodes.length - listed).toLocaleString('en') + ' more: find them by name.') : '');
}

// oneNode shows a node: what the tile has at once, and its map and pods when the server has answered.
export async function oneNode(node, kind, fleet) {
  const number = ++opened, name = node.name;
  $('node-title').textContent = name;
  // The same node that has changed keeps its map and its pods until the new ones are there.
  const again = shown && shown.name === name, { pods, map } = again ? shown : { pods: element('div', { class: 'scroll' }), map: element('div', { id: 'node-map' }) };
  shown = { name, pods, map };
  $('node-body').replaceChildren(element('p', { class: 'faint' }, kind ? kind.policy : ''), numaTable(node), map, element('h3', {}, 'Pods'), pods);
  if (!fleet.canAsk) {
    const here = (fleet.pods || []).filter((p) => p[1] === name);
    pods.replaceChildren(element('ul', {}, ...here.map(([pod]) => element('li', {}, pod))), fleet.omitted ? element('p', { class: 'faint' }, 'This file does not list all pods.') : '');
    return;
  }
  $('node').hidden = false; // The map is as wide as the panel.
  try {
    const at = 'api/nodes/' + encodeURIComponent(name), [more, picture] = await Promise.all([ask(at), askPicture(at + '/map.svg' + widthOf(map))]);
    if (number !== opened) return;
    map.replaceChildren(document.importNode(picture, true));
    pods.replaceChildren(more.pods.length ? table(['Pod', 'CPUs', 'NUMA nodes'], more.pods.map((p) => [p.pod, p.cpus || 'shared', p.numaNodes]), '') : element('p', { class: 'faint' }, 'None.'));
    if (more.lately.length) pods.append(element('h3', {}, 'Rejected here'), element('ul', {}, ...more.lately.map((r) => element('li', {}, element('span', { class: 'bad' }, r.pod), ' ' + when(r.time) + r.class + ': ' + (r.message || r.cause)))));
  } catch (e) {
    if (number === opened) pods.replaceChildren(element('p', { class: 'bad' }, e.message));
  }
}
