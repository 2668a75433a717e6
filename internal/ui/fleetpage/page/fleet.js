'use strict';
// The page of a fleet: it reads, and changes nothing. What is chosen is in the address, so that it can be
// sent to somebody. In one file, without a program that answers, it shows what is in the element "data".
import { $, element, ask, askPicture, cpus } from './text.js';
import { EXCLUSIVE, FREE, POOLED, SHARED, STRANDED, Tiles, sum } from './tiles.js';

const shown = { fleet: null, text: '', hits: null, placed: null, node: '' };
const tiles = new Tiles($('tiles'), $('canvas'), $('space'));
const stranded = (node) => sum(node, STRANDED) / 100;
const whole = (n) => String(Math.round(n * 10) / 10);
const nodesText = (n) => n.toLocaleString('en') + (n === 1 ? ' node' : ' nodes');

for (const [name, text] of [['exclusive', 'exclusive to a container'], ['pooled', 'in the pool of a pod'], ['free', 'free'], ['stranded', 'free, left over by typical requests'], ['shared', 'shared only']]) {
  $('legend').append(element('span', {}, element('i', { class: name }), text));
}

// about says in words what a tile shows.
function about(node) {
  const kind = shown.fleet.kinds[node.kind];
  return node.name + (kind && kind.name !== node.name ? ', kind ' + kind.name : '') + ': ' + sum(node, FREE) + ' CPUs free, ' + whole(stranded(node)) + ' of them stranded, ' + sum(node, EXCLUSIVE) + ' exclusive, ' +
    sum(node, POOLED) + ' in pools, ' + sum(node, SHARED) + ' shared only; ' + node.pods + (node.pods === 1 ? ' pod' : ' pods') + '. Free by NUMA node: ' +
    node.numa.map((n) => n[0] + ': ' + n[FREE]).join(', ') + verdictOf(node);
}

function verdictOf(node) {
  const p = shown.placed;
  if (!p) return '';
  if (p.node === node.name) return '. ' + p.pod + ' would go here';
  const why = p.verdicts[node.index];
  return why ? '. It does not take ' + p.pod + ': ' + p.reasons[why - 1].reason : '. It would take ' + p.pod;
}

const sorts = {
  name: null,
  free: (a, b) => sum(b, FREE) - sum(a, FREE),
  stranded: (a, b) => stranded(b) - stranded(a),
  pods: (a, b) => b.pods - a.pods,
};

function arrange() {
  const f = shown.fleet, by = $('group').value, sort = sorts[$('sort').value];
  const groups = new Map();
  for (const node of f.nodes) {
    const kind = f.kinds[node.kind];
    const title = by === 'kind' ? kind.name + ' (' + kind.policy + ')' : by === 'zone' ? node.zone || 'no zone' : '';
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push(node);
  }
  const list = [...groups].map(([title, nodes]) => ({ title: title && title + ': ' + nodesText(nodes.length) + ', ' + nodes.reduce((n, x) => n + sum(x, FREE), 0).toLocaleString('en') + ' CPUs free', nodes: sort ? [...nodes].sort(sort) : nodes }));
  list.sort((a, b) => (a.title < b.title ? -1 : a.title > b.title ? 1 : 0));
  $('groups').textContent = list.map((g) => g.title).filter(Boolean).join('; ');
  const current = tiles.order[tiles.at];
  tiles.show(list);
  tiles.at = current ? tiles.order.findIndex((n) => n.name === current.name) : -1;
  tiles.chosen = tiles.order.findIndex((n) => n.name === shown.node);
  describe();
}

tiles.look = (node) => {
  const p = shown.placed;
  if (p) return p.node === node.name ? 'lands' : p.verdicts[node.index] ? 'dim' : 'plain';
  return shown.hits && !shown.hits.has(node.index) ? 'dim' : 'plain';
};

function describe() {
  const node = tiles.order[tiles.at], option = $('current');
  option.textContent = node ? about(node) : 'No node is chosen';
  option.setAttribute('aria-selected', String(Boolean(node && node.name === shown.node)));
  option.setAttribute('aria-posinset', String(tiles.at + 1));
  option.setAttribute('aria-setsize', String(tiles.order.length));
  $('under').textContent = node ? about(node) : '';
}

// beside shows what is beside the nodes.
function beside(a) {
  Object.assign(shown.fleet, a);
  $('summary').textContent = a.summary;
  $('summary').textContent += strandedText();
  $('causes-count').textContent = a.rejected ? a.rejected.toLocaleString('en') : '';
  $('causes').replaceChildren(...(a.causes.length ? a.causes.map((c) => element('li', {},
    element('span', { class: 'bad' }, c.pods.toLocaleString('en') + (c.pods === 1 ? ' pod: ' : ' pods: ') + c.reason), ' such as ' + c.example,
    element('div', { class: 'faint' }, c.nodes.join('; ')),
    c.detail ? element('div', {}, c.node + ': ' + c.detail) : null,
    c.remedy ? element('div', {}, element('span', { class: 'good' }, 'to fit there: '), c.remedy) : null,
    c.oneMore ? element('div', {}, 'one more node of kind ' + c.oneMore + ' would take it') : null)) : [element('li', { class: 'faint' }, 'None.')]));
  for (const [id, list] of [['left', a.leftOut], ['notes', a.notes]]) {
    $(id).hidden = !list.length;
    $(id + '-count').textContent = list.length.toLocaleString('en');
    $(id + '-list').replaceChildren(...list.map((n) => element('li', {}, n.node ? element('strong', {}, n.node + ': ') : null, n.text)));
  }
  $('counters').hidden = !a.counters.length;
  $('counters-rows').replaceChildren(...a.counters.map((c) => element('tr', {}, element('td', {}, c.kind), ...[c.rejected, c.lastHour, c.nodes].map((n) => element('td', { class: 'number' }, n.toLocaleString('en') || '0')), element('td', {}, c.class), element('td', {}, c.cause))));
  filter();
}

// strandedText says how many of the free CPUs of all nodes are stranded.
function strandedText() {
  const nodes = shown.fleet.nodes, free = nodes.reduce((n, x) => n + sum(x, FREE), 0);
  const left = nodes.reduce((n, x) => n + stranded(x), 0);
  return free ? ($('summary').textContent ? '; ' : '') + (Math.round(left * 10) / 10).toLocaleString('en') + ' of ' + free.toLocaleString('en') + ' free CPUs are stranded' : '';
}

// filter shows the counters that the search is about; all, if it is about none.
function filter() {
  const rows = [...$('counters-rows').children], text = shown.text.toLowerCase();
  const about = rows.filter((r) => r.textContent.toLowerCase().includes(text));
  for (const r of rows) r.hidden = about.length > 0 && !about.includes(r);
}

// show shows a fleet. What was marked in another one with other nodes is not true of it.
function show(fleet) {
  const same = shown.fleet && shown.fleet.nodes.length === fleet.nodes.length && fleet.nodes.every((n, i) => n.name === shown.fleet.nodes[i].name);
  shown.fleet = fleet;
  fleet.nodes.forEach((n, i) => { n.index = i; });
  if (!same && shown.placed) { shown.placed = null; $('placed').replaceChildren(element('p', {}, 'The nodes have changed: place it again.')); $('forget').hidden = true; }
  document.title = fleet.title;
  $('title').textContent = fleet.title;
  $('nodes-count').textContent = fleet.nodes.length.toLocaleString('en');
  $('asking').hidden = !fleet.canAsk;
  beside(fleet);
  stale(fleet);
  arrange();
  if (shown.text) search();
  if (shown.node) open(shown.node, false);
}

// apply changes some nodes.
function apply(change) {
  const { tiles: changed, revision, ...rest } = change;
  shown.fleet.revision = revision;
  for (const [i, node] of Object.entries(changed)) Object.assign(shown.fleet.nodes[i], node);
  beside(rest);
  if ($('sort').value === 'name' && $('group').value === 'none') { tiles.soon(); describe(); } else arrange();
  if (Object.values(changed).some((n) => n.name === shown.node)) open(shown.node, false);
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
  remember();
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

const when = (time) => (time ? new Date(time).toLocaleString() + ', ' : '');

// open shows a node.
let opened = 0;
// widthOf asks for a picture that can be read in so much room, instead of a wide one that is scaled down.
function widthOf(room) {
  if (room.clientWidth >= 1000) return '';
  return room.clientWidth >= 680 ? '?width=medium' : '?width=narrow';
}

async function open(name, focus) {
  const i = tiles.order.findIndex((n) => n.name === name), number = ++opened;
  if (i < 0) { close(); return; }
  shown.node = name;
  tiles.chosen = i;
  tiles.go(i);
  describe();
  remember();
  const node = tiles.order[i], kind = shown.fleet.kinds[node.kind];
  $('node-title').textContent = name;
  const table = element('table', {}, element('thead', {}, element('tr', {}, ...['NUMA node', 'free', 'stranded', 'exclusive', 'in pools', 'shared only'].map((t) => element('th', { class: 'number', scope: 'col' }, t)))),
    element('tbody', {}, ...node.numa.map((n) => element('tr', {}, ...[n[0], n[FREE], whole(n[STRANDED] / 100), n[EXCLUSIVE], n[POOLED], n[SHARED]].map((v) => element('td', { class: 'number' }, v === 0 ? '0' : String(v)))))));
  const pods = element('div', { class: 'scroll' }), map = element('div', { id: 'node-map' });
  $('node-body').replaceChildren(element('p', { class: 'faint' }, kind ? kind.policy : ''), table, map, element('h3', {}, 'Pods'), pods);
  $('node').hidden = false;
  if (focus) $('node').focus();
  if (!shown.fleet.canAsk) {
    const here = (shown.fleet.pods || []).filter((p) => p[1] === name);
    pods.replaceChildren(element('ul', {}, ...here.map(([pod]) => element('li', {}, pod))), shown.fleet.omitted ? element('p', { class: 'faint' }, 'This file lists not all pods.') : '');
    return;
  }
  try {
    const [more, picture] = await Promise.all([ask('api/nodes/' + encodeURIComponent(name)), askPicture('api/nodes/' + encodeURIComponent(name) + '/map.svg' + widthOf(map))]);
    if (number !== opened) return;
    map.replaceChildren(document.importNode(picture, true));
    pods.replaceChildren(more.pods.length ? element('table', {}, element('thead', {}, element('tr', {}, ...['Pod', 'CPUs', 'NUMA nodes'].map((t) => element('th', { scope: 'col' }, t)))),
      element('tbody', {}, ...more.pods.map((p) => element('tr', {}, element('td', {}, p.pod), element('td', {}, p.cpus || 'shared'), element('td', {}, p.numaNodes))))) : element('p', { class: 'faint' }, 'None.'));
    if (more.lately.length) pods.append(element('h3', {}, 'Rejected here'), element('ul', {}, ...more.lately.map((r) => element('li', {}, element('span', { class: 'bad' }, r.pod), ' ' + when(r.time) + r.class + ': ' + (r.message || r.cause)))));
  } catch (e) {
    if (number === opened) pods.replaceChildren(element('p', { class: 'bad' }, e.message));
  }
}

function close() {
  opened++;
  shown.node = '';
  tiles.chosen = -1;
  $('node').hidden = true;
  tiles.soon();
  remember();
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
  const at = shown.placed && tiles.order.findIndex((n) => n.name === shown.placed.node);
  if (at >= 0) { tiles.go(at); describe(); }
}

function mark() {
  $('forget').hidden = !shown.placed;
  tiles.soon();
  describe();
}

function remember() {
  const chosen = new URLSearchParams();
  for (const [key, value] of [['q', shown.text], ['node', shown.node], ['sort', $('sort').value === 'name' ? '' : $('sort').value], ['group', $('group').value === 'none' ? '' : $('group').value]]) if (value) chosen.set(key, value);
  history.replaceState(null, '', chosen.size ? '#' + chosen : location.pathname + location.search);
}

function recall() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  $('search').value = shown.text = chosen.get('q') || '';
  shown.node = chosen.get('node') || '';
  for (const name of ['sort', 'group']) if ([...$(name).options].some((o) => o.value === chosen.get(name))) $(name).value = chosen.get(name);
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

$('search').addEventListener('input', search);
$('searching').addEventListener('submit', (e) => e.preventDefault());
for (const name of ['sort', 'group']) $(name).addEventListener('change', () => { arrange(); remember(); });
$('place').addEventListener('submit', (e) => { e.preventDefault(); place($('manifest').value); });
$('forget').addEventListener('click', () => { shown.placed = null; $('placed').replaceChildren(); mark(); });
$('node-close').addEventListener('click', () => { close(); $('tiles').focus(); });
$('tiles').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && tiles.at >= 0) { open(tiles.order[tiles.at].name, true); e.preventDefault(); return; }
  const to = tiles.step(e.key);
  if (to < 0 || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  tiles.go(to);
  describe();
});
for (const event of ['focus', 'blur']) $('tiles').addEventListener(event, () => tiles.soon());
$('tiles').addEventListener('click', (e) => { const i = tiles.under(e.clientX, e.clientY); if (i >= 0) open(tiles.order[i].name, false); });
$('tiles').addEventListener('mousemove', (e) => { const i = tiles.under(e.clientX, e.clientY); $('under').textContent = i < 0 ? '' : about(tiles.order[i]); });
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { $('search').focus(); e.preventDefault(); }
  if (e.key === 'Escape' && !$('node').hidden) { close(); $('tiles').focus(); }
});

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
// For tests: what is drawn.
window.paddock = { tiles, shown };
