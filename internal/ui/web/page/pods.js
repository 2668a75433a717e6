'use strict';
// The list of pods: searched, sorted, grouped.
import { $, element, cpuCount, cpus } from './text.js';

const orders = {
  admission: (a, b) => a.sinceRevision - b.sinceRevision,
  name: (a, b) => a.pod.localeCompare(b.pod),
  cpus: (a, b) => cpuCount(b.cpus) - cpuCount(a.cpus) || a.pod.localeCompare(b.pod),
};
const folded = new Set();

const groupOf = (by, p) => (by === 'namespace' ? p.pod.slice(0, p.pod.indexOf('/')) : p.workload);

// searched is what was typed, "" for nothing.
export const searched = () => $('search').value.trim().toLowerCase();

// matches says which pods the search finds; null: there is no search.
export function matches(pods) {
  const text = searched();
  if (!text) return null;
  return new Set(pods.filter((p) =>
    p.pod.toLowerCase().includes(text) || p.uid.toLowerCase() === text || (p.containers || []).some((c) => c.name.toLowerCase().includes(text) ||
      (c.allDevices || []).some((d) => d.device.toLowerCase().includes(text)))
  ).map((p) => p.uid));
}

// sharesNode says whether containers of a pod run on the node shared pool.
export const sharesNode = (p) => !p.cpus || (p.containers || []).some((c) => c.isolation === 'host');

// owners are the UIDs of the pods that have a CPU or a device.
export const owners = (cell) => (cell.dataset.pods ? JSON.parse(cell.dataset.pods) : [cell.dataset.pod]).filter(Boolean);

// lit says which cells show where pods run: their own, and for pods of the node shared pool that.
export function lit(pods, uids) {
  const shared = pods.some((p) => uids.has(p.uid) && sharesNode(p));
  return (cell) => (cell.dataset.pod === '' ? shared : owners(cell).some((uid) => uids.has(uid)));
}

function podLine(p, chosen, choose) {
  return element('li', {}, element('button', { type: 'button', 'data-uid': p.uid, 'aria-current': chosen.includes(p.uid) && 'true', onclick: () => choose(p.uid) },
    element('span', { class: 'tag ' + (p.slot < 0 ? 'none' : 'k' + p.colour % 7) }, p.tag || ' '),
    element('span', { class: 'name' }, p.pod),
    element('span', { class: 'faint' }, (p.cpus ? cpus(cpuCount(p.movingFrom || p.cpus)) : 'node shared pool') + (p.estimated ? ', estimated' : '') + (p.movingTo ? ', being moved' : '')),
    p.remote ? element('span', { class: 'bad' }, 'remote') : null));
}

// listPods shows those that the search finds. What is the same stays, so that no click and no focus is lost.
let listed = '';
export function listPods(pods, chosen, choose) {
  const found = matches(pods), by = $('group').value;
  const now = JSON.stringify([by, $('sort').value, searched(), chosen, pods.map((p) => [p.uid, p.pod, p.tag, p.colour, p.cpus, p.sinceRevision, p.estimated, p.remote, p.movingTo])]);
  if (now === listed) return;
  listed = now;
  const shown = pods.filter((p) => !found || found.has(p.uid)).sort(orders[$('sort').value]);
  $('pods-count').textContent = found ? shown.length + ' of ' + pods.length : String(pods.length);
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.uid : null;
  if (by === 'pod') $('pods').replaceChildren(...shown.map((p) => podLine(p, chosen, choose)));
  else {
    const groups = new Map();
    for (const p of shown) {
      const name = groupOf(by, p);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(p);
    }
    $('pods').replaceChildren(...[...groups.keys()].sort().map((name) => {
      const members = groups.get(name), owned = members.find((p) => p.slot >= 0);
      return element('li', {}, element('details', {
        open: !folded.has(name) && '', 'data-group': name,
        ontoggle: (e) => { if (e.target.open) folded.delete(name); else folded.add(name); },
      }, element('summary', {}, element('span', { class: 'tag ' + (owned ? 'k' + owned.colour % 7 : 'none') }, ' '), ' ' + name + ' ',
        element('span', { class: 'faint' }, members.length + (members.length === 1 ? ' pod, ' : ' pods, ') + cpus(members.reduce((n, p) => n + cpuCount(p.cpus), 0)))),
      element('ul', {}, ...members.map((p) => podLine(p, chosen, choose)))));
    }));
  }
  if (focused) {
    const again = [...document.querySelectorAll('#pods button')].find((b) => b.dataset.uid === focused);
    if (again) again.focus();
  }
}
