'use strict';
// The page of a fleet: it reads, and changes nothing. What is chosen is in the address, so that a link shows the
// same view, and going back shows the one before. In one file, without a program that answers, it shows what is in the
// element "data".
import { $, ask, cpus, element } from './text.js';
import { keep, put } from './keep.js';
import { Histogram, Kinds, inStep, number, stepWords } from './kinds.js';
import { equalNodes, forget, oneNode, when } from './node.js';
import { scarce } from './scarce.js';
import { EXCLUSIVE, FREE, POOLED, SHARED, STRANDED, Tiles, sum } from './tiles.js';

// What is shown. sort, group and equal are empty unless somebody chose them; free is the lowest number of a step of
// the histogram, -1 for all.
const shown = { fleet: null, view: 'nodes', text: '', hits: null, placed: null, node: '', like: '', kind: '', free: -1, sort: '', group: '', equal: '' };
const tiles = new Tiles($('tiles'), $('canvas'), $('space'));
const kinds = new Kinds($('kinds-head'), $('kinds-rows'), (name) => only({ kind: shown.kind === name ? '' : name }));
const histogram = new Histogram($('histogram'), (low) => only({ free: shown.free === low ? -1 : low }));
const stranded = (node) => sum(node, STRANDED) / 100;
const whole = (n) => String(Math.round(n * 10) / 10);
const nodesText = (n) => n.toLocaleString('en') + (n === 1 ? ' node' : ' nodes');

// From so many nodes on, they are grouped by kind, those that strand most come first, and equal ones are one tile.
const many = 200;
const defaults = () => (shown.fleet && shown.fleet.nodes.length > many ? { sort: 'stranded', group: 'kind', equal: 'yes' } : { sort: 'name', group: 'none', equal: 'no' });
const setting = (name) => shown[name] || defaults()[name];

for (const [name, text] of [['exclusive', 'exclusive to a container'], ['pooled', 'in the pool of a pod'], ['free', 'free'], ['stranded', 'free, left over by typical requests'], ['shared', 'shared only']]) {
  $('legend').append(element('span', {}, element('i', { class: name }), text));
}

// about describes what a tile shows.
function about(nodes) {
  const node = nodes[0], kind = shown.fleet.kinds[node.kind], several = nodes.length > 1;
  return (several ? nodes.length.toLocaleString('en') + ' equal nodes, such as ' : '') + node.name + (kind && kind.name !== node.name ? ', kind ' + kind.name : '') + ': ' + (several ? 'each has ' : '') + cpus(sum(node, FREE)) + ' free, ' + whole(stranded(node)) + ' of them stranded, ' + sum(node, EXCLUSIVE) + ' exclusive, ' +
    sum(node, POOLED) + ' in pools, ' + sum(node, SHARED) + ' shared only' + (several ? '' : '; ' + node.pods + (node.pods === 1 ? ' pod' : ' pods')) + '. Free by NUMA node: ' +
    node.numa.map((n) => n[0] + ': ' + n[FREE]).join(', ') + verdictOf(nodes);
}

function verdictOf(nodes) {
  const p = shown.placed;
  if (!p) return '';
  if (nodes.some((n) => n.name === p.node)) return '. ' + p.pod + ' would go ' + (nodes.length > 1 ? 'to ' + p.node : 'here');
  const why = p.verdicts[nodes[0].index];
  return why ? '. It does not take ' + p.pod + ': ' + p.reasons[why - 1].reason : '. It would take ' + p.pod;
}

const sorts = {
  name: null,
  free: (a, b) => sum(b, FREE) - sum(a, FREE),
  stranded: (a, b) => stranded(b) - stranded(a),
  pods: (a, b) => b.pods - a.pods,
};

// equalSets puts nodes that look the same into one set.
function equalSets(nodes) {
  const sets = new Map();
  for (const node of nodes) {
    const key = node.kind + ' ' + node.look, set = sets.get(key);
    if (set) set.push(node); else sets.set(key, [node]);
  }
  return [...sets.values()];
}

// arrange puts the nodes into their order.
function arrange() {
  const f = shown.fleet, by = setting('group'), sort = sorts[setting('sort')], groups = new Map();
  for (const name of ['sort', 'group']) $(name).value = setting(name);
  $('equal').checked = setting('equal') === 'yes';
  const some = f.nodes.filter((n) => (!shown.kind || f.kinds[n.kind].name === shown.kind) && (shown.free < 0 || inStep(n, shown.free)));
  for (const node of some) {
    const title = by === 'kind' ? f.kinds[node.kind].name : by === 'zone' ? node.zone || 'no zone' : '';
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push(node);
  }
  const list = [...groups].map(([title, nodes]) => {
    const ordered = sort ? [...nodes].sort(sort) : nodes, all = (of) => number(nodes.reduce((n, x) => n + of(x), 0));
    return { title: title && title + ': ' + nodesText(nodes.length) + ', ' + all((x) => sum(x, FREE)) + ' CPUs free, ' + all(stranded) + ' of them stranded', sets: setting('equal') === 'yes' ? equalSets(ordered) : ordered.map((n) => [n]) };
  });
  list.sort((a, b) => (a.title < b.title ? -1 : a.title > b.title ? 1 : 0));
  put($('groups'), list.map((g) => g.title).filter(Boolean).join('; '));
  const current = tiles.order[tiles.at];
  tiles.show(list);
  tiles.at = current ? tiles.find(current.name) : -1;
  tiles.chosen = tiles.find(shown.node || shown.like);
  const chosen = [shown.kind, shown.free < 0 ? '' : stepWords(shown.free)].filter(Boolean);
  put($('only'), chosen.length ? nodesText(some.length) + ' of ' + chosen.join(' with ') : '');
  $('all').hidden = !chosen.length;
  kinds.show(f, shown.kind);
  histogram.show(shown.kind ? f.nodes.filter((n) => f.kinds[n.kind].name === shown.kind) : f.nodes, shown.free);
  describe();
}

// only shows some nodes.
function only(choice) {
  Object.assign(shown, choice);
  arrange();
  remember(true);
}

tiles.look = (node, nodes = [node]) => {
  const p = shown.placed;
  if (p) return nodes.some((n) => n.name === p.node) ? 'lands' : nodes.every((n) => p.verdicts[n.index]) ? 'dim' : 'plain';
  return shown.hits && !nodes.some((n) => shown.hits.has(n.index)) ? 'dim' : 'plain';
};

function describe() {
  const place = tiles.places[tiles.at], option = $('current'), text = place ? about(place.nodes) : '';
  put(option, text || 'No node is chosen');
  option.setAttribute('aria-selected', String(Boolean(place && tiles.at === tiles.chosen)));
  option.setAttribute('aria-posinset', String(tiles.at + 1));
  option.setAttribute('aria-setsize', String(tiles.order.length));
  put($('under'), text);
}

// beside shows what is beside the nodes.
function beside(a) {
  Object.assign(shown.fleet, a);
  put($('summary'), a.summary + strandedText(a.summary));
  scarce(a.scarce);
  put($('causes-count'), a.rejected ? a.rejected.toLocaleString('en') : '');
  keep($('causes'), a.causes, (c) => c.reason + c.example, (c) => element('li', {},
    element('span', { class: 'bad' }, c.pods.toLocaleString('en') + (c.pods === 1 ? ' pod: ' : ' pods: ') + c.reason), (c.pods === 1 ? ', ' : ' such as ') + c.example,
    element('div', { class: 'faint' }, c.nodes.join('; ')),
    c.detail ? element('div', {}, c.node + ': ' + c.detail) : null,
    c.remedy ? element('div', {}, element('span', { class: 'good' }, 'to fit there: '), c.remedy) : null,
    c.oneMore ? element('div', {}, 'one more node of kind ' + c.oneMore + ' would take it') : null));
  if (!a.causes.length) keep($('causes'), ['None.'], () => '', (text) => element('li', { class: 'faint' }, text));
  for (const [id, list] of [['left', a.leftOut], ['notes', a.notes]]) {
    $(id).hidden = !list.length;
    put($(id + '-count'), list.length.toLocaleString('en'));
    keep($(id + '-list'), list, (n) => n.node + n.text, (n) => element('li', {}, n.node ? element('strong', {}, n.node + ': ') : null, n.text));
  }
  $('counters').hidden = !a.counters.length && !a.counted;
  put($('counters-count'), a.counted ? a.counted.rejected.toLocaleString('en') + ', in the last hour ' + a.counted.lastHour.toLocaleString('en') : '');
  put($('counters-summary'), a.counted ? a.counted.summary : '');
  keep($('counters-rows'), a.counters, (c) => [c.kind, c.class, c.cause].join('\n'), (c) => element('tr', { role: 'row' }, ...[['Kind', c.kind], ['Rejected', c.rejected], ['Last hour', c.lastHour], ['Nodes', c.nodes], ['Class', c.class], ['Cause', c.cause]].map(
    ([title, v]) => element('td', { role: 'cell', class: typeof v === 'number' ? 'number' : '', 'data-title': title }, typeof v === 'number' ? v.toLocaleString('en') || '0' : v))));
  const rejected = a.rejected + (a.counted ? a.counted.rejected : 0), notes = a.leftOut.length + a.notes.length;
  put($('nav-rejections'), rejected ? rejected.toLocaleString('en') : 'none');
  put($('nav-notes'), notes.toLocaleString('en'));
  document.querySelector('nav [data-view=notes]').hidden = !notes;
  filter();
}

// strandedText describes how many of the free CPUs of all nodes are stranded.
function strandedText(before) {
  const nodes = shown.fleet.nodes, free = nodes.reduce((n, x) => n + sum(x, FREE), 0);
  return free ? (before ? '; ' : '') + number(nodes.reduce((n, x) => n + stranded(x), 0)) + ' of ' + free.toLocaleString('en') + ' free CPUs are stranded' : '';
}

// filter shows the counters that the search is about; all, if it is about none.
function filter() {
  const rows = [...$('counters-rows').children], text = shown.text.toLowerCase();
  const found = rows.filter((r) => r.textContent.toLowerCase().includes(text));
  for (const r of rows) r.hidden = found.length > 0 && !found.includes(r);
}

// lookOf is the number of what the NUMA nodes of a node have: equal nodes have the same one.
function lookOf(numa) {
  const f = shown.fleet, text = JSON.stringify(numa);
  if (!f.lookAt) f.lookAt = new Map(f.looks.map((l, i) => [JSON.stringify(l), i]));
  if (!f.lookAt.has(text)) f.lookAt.set(text, f.lookAt.size);
  return f.lookAt.get(text);
}

// show shows a fleet. What was marked in another one with other nodes is not true of it.
function show(fleet) {
  const same = shown.fleet && shown.fleet.nodes.length === fleet.nodes.length && fleet.nodes.every((n, i) => n.name === shown.fleet.nodes[i].name);
  shown.fleet = fleet;
  fleet.nodes.forEach((n, i) => Object.assign(n, { index: i, numa: fleet.looks[n.look], zone: n.zone || '' }));
  if (!same && shown.placed) { shown.placed = null; $('placed').replaceChildren(element('p', {}, 'The nodes have changed: place it again.')); $('forget').hidden = true; }
  document.title = fleet.title;
  put($('title'), fleet.title);
  put($('nodes-count'), fleet.nodes.length.toLocaleString('en'));
  put($('nav-nodes'), fleet.nodes.length.toLocaleString('en'));
  $('asking').hidden = document.querySelector('nav [data-view=place]').hidden = !fleet.canAsk;
  beside(fleet);
  stale(fleet);
  arrange();
  if (shown.text) search();
  panel(false);
}

// apply changes some nodes.
function apply(change) {
  const { tiles: changed, revision, ...rest } = change;
  shown.fleet.revision = revision;
  for (const [i, node] of Object.entries(changed)) Object.assign(shown.fleet.nodes[i], node, { look: lookOf(node.numa) });
  beside(rest);
  arrange();
  if (shown.like || Object.values(changed).some((n) => n.name === shown.node)) panel(false);
  if (shown.text) search();
}

// stale shows since when the cluster is not followed, and why.
function stale(state) {
  $('stale').hidden = !state.why;
  $('stale').textContent = !state.why ? '' : state.since ? 'The cluster is not followed since ' + new Date(state.since).toLocaleString() + ': ' + state.why + '. The page shows what was known then.' : state.why;
}

// search looks for a text in the names of pods and nodes, in the page itself if it is one file.
let searches = 0;
async function search() {
  const text = $('search').value.trim(), number = ++searches;
  shown.text = text;
  filter();
  if (!text) { shown.hits = null; found(null); return; }
  let answer;
  if (shown.fleet.canAsk) {
    try { answer = await ask('api/search?q=' + encodeURIComponent(text)); } catch (e) { lost(e); return; }
  } else {
    answer = searchHere(text.toLowerCase());
  }
  if (number !== searches) return;
  shown.hits = new Set(answer.nodes);
  found(answer);
}

function searchHere(text) {
  const f = shown.fleet, at = new Map(f.nodes.map((n) => [n.name, n.index])), nodes = new Set(f.nodes.filter((n) => n.name.toLowerCase().includes(text)).map((n) => n.index));
  const pods = (f.pods || []).filter(([pod]) => pod.toLowerCase().includes(text));
  for (const [, node] of pods) nodes.add(at.get(node));
  return { nodes: [...nodes], pods: pods.slice(0, 200), total: pods.length, rejected: [], lately: [] };
}

function found(answer) {
  $('hits').hidden = !answer;
  $('found').textContent = !answer ? '' : answer.total.toLocaleString('en') + (answer.total === 1 ? ' pod, ' : ' pods, ') + nodesText(answer.nodes.length) + (answer.rejected.length + answer.lately.length ? ', ' + (answer.rejected.length + answer.lately.length) + ' rejected' : '');
  if (answer) {
    $('hits-count').textContent = answer.total > answer.pods.length ? 'the first ' + answer.pods.length + ' of ' + answer.total.toLocaleString('en') : '';
    const hit = (name, node, bad) => element('li', {}, node ? element('button', { type: 'button', onclick: () => open(node, true) }, element('span', {}, name), element('span', { class: 'faint' }, node)) : element('p', {}, name + ' ', element('span', { class: 'bad' }, bad)));
    $('hits-list').replaceChildren(...answer.rejected.map((r) => hit(r.pod, '', 'rejected by every node: ' + r.reason)),
      ...answer.lately.map((r) => element('li', {}, element('button', { type: 'button', onclick: () => open(r.node, true) }, element('span', {}, r.pod), element('span', { class: 'bad' }, 'rejected by ' + r.node)), element('div', { class: 'faint' }, when(r.time) + r.class + ': ' + (r.message || r.cause)))), ...answer.pods.map(([pod, node]) => hit(pod, node)));
  }
  tiles.soon();
}

// open shows a node, and openTile what is in a tile.
function open(name, focus) {
  Object.assign(shown, { node: name, like: '' });
  if (!shown.fleet.nodes.some((n) => n.name === name)) shown.node = '';
  if (shown.node && tiles.find(name) < 0) { Object.assign(shown, { kind: '', free: -1 }); arrange(); }
  panel(focus);
  remember(true);
}

function openTile(i, focus) {
  const { nodes } = tiles.places[i];
  if (nodes.length === 1) { open(nodes[0].name, focus); return; }
  Object.assign(shown, { node: '', like: nodes[0].name });
  panel(focus);
  remember(true);
}

// panel shows the node or the equal nodes that are chosen.
let described = '';
function panel(focus) {
  const name = shown.node || shown.like, node = shown.fleet.nodes.find((n) => n.name === name);
  tiles.chosen = tiles.find(name);
  if (!node) {
    Object.assign(shown, { node: '', like: '' });
    described = '';
    forget();
    $('node').hidden = true;
    tiles.soon();
    return;
  }
  const nodes = tiles.chosen >= 0 ? tiles.places[tiles.chosen].nodes : [node], kind = shown.fleet.kinds[node.kind];
  const opens = $('node').hidden || focus, text = [shown.like, node.look, ...nodes.map((n) => n.name)].join(' ');
  $('node').hidden = false;
  if (shown.node) oneNode(node, kind, shown.fleet);
  else if (text !== described) equalNodes(nodes, kind, (n) => open(n, true));
  described = shown.like ? text : '';
  if (opens && tiles.chosen >= 0) tiles.go(tiles.chosen);
  describe();
  tiles.soon();
  if (focus) $('node').focus();
}

function close() {
  Object.assign(shown, { node: '', like: '' });
  panel(false);
  remember(true);
}

// place asks where the pods would go that somebody pasted.
async function place(text) {
  $('placed').replaceChildren(element('p', {}, 'Every node plans it …'));
  let answer;
  try {
    const reply = await fetch('api/place', { method: 'POST', body: text, headers: { Accept: 'application/json', 'Content-Type': 'text/plain' } });
    answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error || reply.statusText);
  } catch (e) {
    shown.placed = null;
    $('placed').replaceChildren(element('p', { class: 'bad' }, e.message));
    mark();
    return;
  }
  $('placed').replaceChildren(...answer.notes.map((n) => element('p', { class: 'faint' }, 'note: ' + n)), ...answer.pods.map((p) => element('div', { class: p.node ? 'goes' : '' },
    p.node ? element('p', {}, element('span', { class: 'good' }, p.pod + ' would go to '), element('button', { type: 'button', onclick: () => { shown.placed = p; mark(); open(p.node, true); } }, p.node),
      p.cpus ? ' with CPUs ' + p.cpus + ' of NUMA nodes ' + p.numaNodes : ', onto shared CPUs', '; ' + nodesText(p.fits) + ' would take it') :
      element('p', {}, element('span', { class: 'bad' }, p.pod + ' is rejected by every node')),
    element('ul', {}, ...p.reasons.map((r) => element('li', {}, nodesText(r.nodes) + ': ' + r.reason, r.detail ? element('div', { class: 'faint' }, r.node + ': ' + r.detail) : null))))));
  shown.placed = answer.pods.length ? answer.pods[answer.pods.length - 1] : null;
  mark();
  const at = shown.placed ? tiles.find(shown.placed.node) : -1;
  if (at >= 0) { tiles.go(at); describe(); }
}

function mark() {
  $('forget').hidden = !shown.placed;
  tiles.soon();
  describe();
}

// address is the part of the address that shows what is chosen, in a view.
function address(view) {
  const chosen = new URLSearchParams();
  for (const [key, value] of [['view', view === 'nodes' ? '' : view], ['q', shown.text], ['node', shown.node], ['like', shown.like], ['kind', shown.kind], ['free', shown.free < 0 ? '' : String(shown.free)], ['sort', shown.sort], ['group', shown.group], ['equal', shown.equal]]) if (value) chosen.set(key, value);
  return chosen.size ? '#' + chosen : '';
}

// remember puts what is chosen into the address. If it is a step, going back undoes it.
function remember(step) {
  for (const link of document.querySelectorAll('nav [data-view]')) link.href = address(link.dataset.view) || '#';
  const now = address(shown.view);
  if (now === location.hash) return;
  history[step ? 'pushState' : 'replaceState'](null, '', now || location.pathname + location.search);
}

// recall takes what is chosen from the address.
function recall() {
  const chosen = new URLSearchParams(location.hash.slice(1)), one = (name, values) => (values.includes(chosen.get(name)) ? chosen.get(name) : '');
  for (const name of ['node', 'like', 'kind']) shown[name] = chosen.get(name) || '';
  shown.text = chosen.get('q') || '';
  $('search').value = shown.text;
  shown.free = /^\d{1,6}$/.test(chosen.get('free') || '') ? Number(chosen.get('free')) : -1;
  for (const name of ['sort', 'group']) shown[name] = one(name, [...$(name).options].map((o) => o.value));
  shown.equal = one('equal', ['yes', 'no']);
  shown.view = one('view', ['nodes', 'rejections', 'place', 'notes']) || 'nodes';
  document.body.dataset.view = shown.view;
  for (const link of document.querySelectorAll('nav [data-view]')) {
    if (link.dataset.view === shown.view) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current');
  }
}

// back shows what the address has after somebody went back or forward, or followed a link.
function back() {
  const before = { text: shown.text, view: shown.view };
  recall();
  if (!shown.fleet) return;
  arrange();
  panel(false);
  if (shown.text !== before.text) search();
  if (shown.view !== before.view) reveal();
  remember(false);
}

// reveal shows the part of the page that is chosen.
function reveal() {
  const titles = [...document.querySelectorAll('[data-in=' + shown.view + '] h2[tabindex]')].filter((t) => t.offsetParent);
  if (!titles.length) return;
  titles[0].focus({ preventScroll: true });
  if (shown.view === 'nodes') scrollTo(0, 0); else titles[0].scrollIntoView();
  tiles.layout();
}

function lost(e) {
  $('lost').hidden = !e;
  $('lost').textContent = e ? 'paddock fleet serve does not answer: ' + e.message : '';
}

async function load() {
  try {
    show(await ask('api/fleet'));
  } catch (e) {
    lost(e);
  }
}

// follow takes what changes. After the stream broke, everything is asked for again if it is another revision.
function follow() {
  const events = new EventSource('events');
  const on = (event, take) => events.addEventListener(event, (e) => take(JSON.parse(e.data)));
  on('hello', ({ revision }) => {
    $('connection').className = 'on';
    $('connection').textContent = 'live';
    lost(null);
    if (revision !== shown.fleet.revision) load();
  });
  on('change', apply);
  on('everything', load);
  on('state', stale);
  events.onerror = () => {
    $('connection').className = 'off';
    $('connection').textContent = 'not connected, trying again';
    lost(new Error('trying again'));
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 1000);
  };
}

$('search').addEventListener('input', () => { const begins = !shown.text; search(); remember(begins); });
$('searching').addEventListener('submit', (e) => e.preventDefault());
for (const name of ['sort', 'group']) $(name).addEventListener('change', () => only({ [name]: $(name).value }));
$('equal').addEventListener('change', () => only({ equal: $('equal').checked ? 'yes' : 'no' }));
$('all').addEventListener('click', () => { only({ kind: '', free: -1 }); $('tiles').focus(); });
$('place').addEventListener('submit', (e) => { e.preventDefault(); place($('manifest').value); });
$('forget').addEventListener('click', () => { shown.placed = null; $('placed').replaceChildren(); mark(); });
$('node-close').addEventListener('click', () => { close(); $('tiles').focus(); });
$('tiles').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && tiles.at >= 0) { openTile(tiles.at, true); e.preventDefault(); return; }
  const to = tiles.step(e.key);
  if (to < 0 || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  tiles.go(to);
  describe();
});
for (const event of ['focus', 'blur']) $('tiles').addEventListener(event, () => tiles.soon());
// On a narrow page, the panel is above the tiles.
const narrow = matchMedia('(max-width: 1000px)');
$('tiles').addEventListener('click', (e) => { const i = tiles.under(e.clientX, e.clientY); if (i >= 0) openTile(i, narrow.matches); });
$('tiles').addEventListener('mousemove', (e) => { const i = tiles.under(e.clientX, e.clientY); $('under').textContent = i < 0 ? '' : about(tiles.places[i].nodes); });
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { $('search').focus(); e.preventDefault(); }
  if (e.key === 'Escape' && !$('node').hidden) { close(); $('tiles').focus(); }
});
addEventListener('popstate', back);

recall();
const embedded = $('data');
if (embedded) {
  show(JSON.parse(embedded.textContent));
} else {
  const start = async () => {
    await load();
    if (shown.fleet) follow(); else setTimeout(start, 1000);
  };
  await start();
}
remember(false);
// For tests: what is drawn.
window.paddock = { tiles, shown };
