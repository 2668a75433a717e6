'use strict';
// The page follows the node: it reads, and has no way to change anything. What it shows comes from
// /api; /events says when there is something new. The address of the page says what is chosen, so that
// it can be sent to somebody.
import { $, element, ask, askPicture, bytes, time } from './text.js';
import { listPods, lit, matches, owners } from './pods.js';
import { showInterruptions } from './interruptions.js';
import { presentOnly, shade, showUse, usesOf } from './use.js';
import { sections } from './sections.js';
import { askRejections, closeWhy, explainRejection, listRejections, markRejections, newestOf, opened, rejectedUntil } from './rejections.js';

const shown = {
  moments: [], at: -1, live: true, state: null, rejections: 0, instance: '', chosen: null, cursor: null,
  marks: {}, preview: null, legend: null, wide: null, // legend and wide are what the reader chose, null for nothing
};
// A phone gets a picture of its own, with one NUMA node beside no other, and so does a tablet.
const phone = matchMedia('(max-width: 600px)'), tablet = matchMedia('(max-width: 1000px)');
// Below this width, the texts of a map beside the lists would be too small to read.
const small = matchMedia('(max-width: 1700px)');
// crowded is how many pods are too many for a legend that is open from the start.
const crowded = 60;

// become changes the element old into one like fresh, and only where they differ: what stays keeps
// its focus and does not flicker. Attributes keep their namespaces: without one, xml:space is no more
// than a name.
const ours = new Set(['tabindex', 'role', 'aria-label', 'aria-valuemin', 'aria-valuemax', 'aria-valuenow']);
function become(old, fresh) {
  for (const a of [...old.attributes]) if (!fresh.hasAttribute(a.name) && !ours.has(a.name)) old.removeAttribute(a.name);
  for (const a of fresh.attributes) if (!ours.has(a.name) && old.getAttribute(a.name) !== a.value) old.setAttributeNS(a.namespaceURI, a.name, a.value);
  const before = [...old.childNodes], after = [...fresh.childNodes];
  for (let i = 0; i < after.length; i++) {
    const a = before[i], b = after[i];
    if (!a) old.append(document.importNode(b, true));
    else if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName || (b.id && a.id !== b.id)) a.replaceWith(document.importNode(b, true));
    else if (a.nodeType === Node.TEXT_NODE) { if (a.data !== b.data) a.data = b.data; }
    else become(a, b);
  }
  for (let i = after.length; i < before.length; i++) before[i].remove();
}

const cells = () => [...document.querySelectorAll('#map .cpu, #map .device')];

function draw(fresh) {
  unmark();
  for (const e of document.querySelectorAll('#map .move')) e.remove(); // Arrows come and go, and are drawn over the rest.
  const old = $('map').firstElementChild;
  if (old) become(old, fresh);
  else $('map').append(document.importNode(fresh, true));
  const svg = $('map').firstElementChild;
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-describedby', 'map-help');
  const all = cells();
  if (!all.some((c) => c.id === shown.cursor)) shown.cursor = all.length ? all[0].id : null;
  for (const c of all) {
    c.setAttribute('role', 'button');
    c.setAttribute('tabindex', c.id === shown.cursor ? '0' : '-1');
    c.setAttribute('aria-label', c.querySelector('title').textContent);
  }
  for (const e of document.querySelectorAll('#map .bar')) {
    e.setAttribute('role', 'meter');
    e.setAttribute('aria-valuemin', '0');
    e.setAttribute('aria-valuemax', e.dataset.max);
    e.setAttribute('aria-valuenow', e.dataset.now);
    e.setAttribute('aria-label', e.querySelector('title') ? e.querySelector('title').textContent : '');
  }
  for (const e of document.querySelectorAll('#map .move')) {
    e.setAttribute('role', 'img');
    e.setAttribute('aria-label', e.querySelector('title').textContent);
  }
  mark();
  highlight();
  shade();
}

const svgElement = (name, properties, ...children) => {
  const e = document.createElementNS($('map').firstElementChild.namespaceURI, name);
  for (const [k, v] of Object.entries(properties)) e.setAttribute(k, String(v));
  e.append(...children);
  return e;
};

function unmark() {
  for (const e of document.querySelectorAll('#map .why')) e.remove();
  for (const e of document.querySelectorAll('#map .fails')) e.classList.remove('fails');
  for (const e of document.querySelectorAll('#map .noted')) e.classList.remove('noted');
}

// mark writes beside the titles of NUMA nodes why they do not serve the pod that is explained, in place
// of what they have free.
function mark() {
  unmark();
  if (shown.preview) return;
  for (const [node, why] of Object.entries(shown.marks)) {
    const frame = $('numa' + node), titles = frame && frame.nextElementSibling;
    if (!titles) continue;
    frame.classList.add('fails');
    const x = Number(frame.getAttribute('x')), y = Number(frame.getAttribute('y')), w = Number(frame.getAttribute('width'));
    const name = titles.querySelector('.name'), note = titles.querySelector('.end');
    if (note) note.classList.add('noted');
    const room = Math.max(4, Math.floor((w - 30) / 7) - (name ? name.textContent.length : 0));
    const text = why.length > room ? why.slice(0, room - 1) + '…' : why;
    $('map').firstElementChild.append(svgElement('g', { class: 'why', 'data-numa': node },
      svgElement('title', {}, 'NUMA node ' + node + ': ' + why),
      svgElement('text', { class: 'why end', x: x + w - 10, y: y + 18 }, text)));
  }
}

const pods = () => (shown.state ? shown.state.pods : []);

function highlight() {
  const found = matches(pods()), chosen = shown.chosen;
  let bright = () => true;
  if (shown.preview) bright = (cell) => owners(cell).includes(shown.preview.uid);
  else if (found) bright = lit(pods(), found);
  else if (chosen && chosen.uids.length) bright = lit(pods(), new Set(chosen.uids));
  for (const c of cells()) {
    c.classList.toggle('dim', !bright(c));
    c.classList.toggle('chosen', Boolean(chosen && chosen.cell === c.id));
  }
  for (const p of document.querySelectorAll('#map .part')) p.classList.toggle('dim', !bright(p));
}

const row = (name, ...value) => (value[0] ? [element('dt', {}, name), element('dd', {}, ...value)] : []);
const list = () => { listPods(pods(), shown.chosen ? shown.chosen.uids : [], choosePod); listRejections(chooseRejection); };

async function chooseCell(cell) {
  shown.chosen = { cell: cell.id, uids: owners(cell) };
  await details();
  $('details').scrollIntoView({ block: 'nearest' }); // Below a map of the whole width.
}

// useChanged shows new numbers about what is chosen.
const useChanged = () => { if (shown.chosen) details(); };

// choosePod shows a pod's details and moves the focus there, unless the reader has gone on to
// something else, such as the search, before the node answered.
async function choosePod(uid) {
  shown.chosen = { cell: null, uids: [uid] };
  await details();
  if (document.activeElement === document.body || $('pods').contains(document.activeElement)) $('details').focus();
}

// details shows what was chosen, as it is in the revision that is shown.
let asked = 0;
async function details() {
  highlight();
  link();
  for (const b of document.querySelectorAll('#pods button')) {
    if (shown.chosen && shown.chosen.uids.includes(b.dataset.uid)) b.setAttribute('aria-current', 'true');
    else b.removeAttribute('aria-current');
  }
  $('details').classList.toggle('open', Boolean(shown.chosen));
  if (!shown.chosen) return;
  const mine = ++asked, parts = [];
  if (shown.chosen.cell !== null) {
    const cell = $(shown.chosen.cell);
    if (cell) {
      parts.push(element('p', {}, cell.querySelector('title').textContent));
      if ($('chosen').textContent !== cell.querySelector('title').textContent) $('chosen').textContent = cell.querySelector('title').textContent;
    }
  }
  for (const uid of shown.chosen.uids) { // Pods can share a device.
    try {
      parts.push(...podParts(await ask('api/pods/' + encodeURIComponent(uid) + query())));
    } catch (e) {
      parts.push(element('p', { class: 'faint' }, e.message));
    }
  }
  if (mine === asked) $('details-body').replaceChildren(...parts);
}

function podParts(p) {
  const containers = (p.containers || []).map((c) => element('tr', {},
    element('th', { scope: 'row' }, c.name), element('td', {}, c.kind), element('td', {}, c.isolation),
    element('td', {}, (c.cpus || 'node shared pool') + (c.runsOn ? ', offline: runs on ' + c.runsOn : '')), element('td', {}, (c.memoryNUMANodes || []).join(', '))));
  const devices = (p.containers || []).flatMap((c) => (c.allDevices || []).map((d) =>
    element('div', remote(d) ? { class: 'bad' } : {}, 'container ' + c.name + ': ' + deviceText(d))));
  return [
    element('h3', {}, p.pod),
    element('dl', {}, ...row('UID', p.uid), ...row('QoS', p.qos), ...row('Request', p.estimated ? 'estimated from cgroup numbers' : ''), ...row('CPUs', p.cpus), ...row('Being moved', p.movingTo ? 'from CPUs ' + p.movingFrom + ' to ' + p.movingTo + '; it has both until it is moved' : ''), ...row('Offline', p.offlineCPUs ? p.offlineCPUs + ' of them; the pod is degraded' : ''), ...row('Memory', (p.memory || []).map((b) => bytes(b.bytes) + ' ' + b.type + ' on NUMA ' + b.numaNodes.join(', ')).join('; ')),
      ...usesOf(p.uid).flatMap((u) => row('Uses', u)), ...row('Devices', ...devices), ...row('Remote', p.remote ? 'its CPUs or memory and a device are not near each other: ' + p.remote : ''),
      ...(p.notes || []).filter((n) => !n.startsWith('degraded:')).flatMap((n) => row('Note', n)),
      ...row('Quota', p.quota), ...(p.since ? row('Since', time(p.since), ', revision ' + p.sinceRevision) : row('Since', 'not known; revision ' + p.sinceRevision))),
    element('table', {}, element('thead', {}, element('tr', {}, ...['Container', 'Kind', 'Isolation', 'CPUs', 'Memory on'].map((t) => element('th', { scope: 'col' }, t)))), element('tbody', {}, ...containers)),
    element('details', { open: why.open && '', ontoggle: (e) => { why.open = e.target.open; } }, element('summary', {}, 'Why'),
      p.decisionUnknown ? element('p', { class: 'faint' }, 'The agent that is running now did not make the decision. This is what it would decide if the pod were new:') : null,
      sections(p.decided)),
  ].filter((e) => e);
}
const why = { open: false };

const remote = (d) => d.distance.startsWith('another');

// deviceText is which device, where it is, and how far if it is not near.
const deviceText = (d) => (d.resource || d.driver) + ' ' + d.device + (d.claim ? ' by claim ' + d.claim : '') +
  (d.numaNodes ? ' on NUMA ' + d.numaNodes.join(', ') : ', its NUMA node is not known') + (remote(d) ? ' (remote: ' + d.distance + ')' : '');

// chooseRejection opens the view of a rejection; quietly when it only came again.
function chooseRejection(r, quietly, proposal) {
  preview(null);
  explainRejection(r, (marks) => { shown.marks = marks; mark(); }, preview, proposal);
  listRejections(chooseRejection);
  link();
  if (!quietly) {
    $('why').focus({ preventScroll: true });
    $('why').scrollIntoView({ block: 'nearest' });
  }
}

function leaveRejection() {
  closeWhy();
  shown.marks = {};
  preview(null);
  mark();
  listRejections(chooseRejection);
  link();
}

// preview shows the map as it would be after a proposal, or the node again.
function preview(what) {
  if (!what && !shown.preview) return;
  shown.preview = what;
  $('preview').hidden = !what;
  $('preview-text').textContent = what ? 'The map after: ' + what.text + '.' : '';
  link();
  if (!what) for (const b of document.querySelectorAll('#why .show')) b.setAttribute('aria-pressed', 'false');
  refresh();
}

// query is what of the node is asked for; more are further parameters.
function query(...more) {
  if (!shown.live && shown.at >= 0) more.push('revision=' + shown.moments[shown.at].revision);
  return more.length ? '?' + more.join('&') : '';
}

const legendShown = () => (shown.legend === null ? pods().length <= crowded : shown.legend);

// picture is where the map is that is shown.
function picture() {
  const look = ['colour=' + $('group').value];
  if (!legendShown()) look.push('legend=no');
  if (tablet.matches) look.push('width=' + (phone.matches ? 'narrow' : 'medium'));
  if (shown.preview) return 'api/rejections/' + shown.preview.number + '/map.svg?' + [...look, 'proposal=' + shown.preview.proposal].join('&');
  return 'api/map.svg' + query(...look);
}

// refresh asks for the revision that is shown. Calls that come meanwhile are one call.
let running = false, again = false;
async function refresh() {
  if (running) { again = true; return; }
  running = true;
  $('picture').setAttribute('aria-busy', 'true');
  try {
    do {
      again = false;
      const state = await ask('api/state' + query('colour=' + $('group').value));
      shown.state = state;
      $('legend').setAttribute('aria-expanded', String(legendShown()));
      const svg = await askPicture(picture());
      document.title = state.machine + ' – Paddock';
      $('machine').textContent = state.machine;
      draw(svg);
      const moving = shown.preview ? '' : state.moves.map((m) => m + '.').join(' ');
      if ($('moving').textContent !== moving) $('moving').textContent = moving; // A screen reader reads only what is new.
      list();
      tell();
      if (shown.chosen) await details();
    } while (again);
  } catch (e) {
    $('moment').textContent = e.message;
  } finally {
    running = false;
    $('picture').setAttribute('aria-busy', 'false');
  }
}

// tell says which revision is shown.
function tell() {
  const slider = $('slider'), m = shown.moments[shown.at];
  slider.max = Math.max(0, shown.moments.length - 1);
  slider.value = shown.at;
  document.body.classList.toggle('past', !shown.live);
  presentOnly(shown.live && !shown.preview);
  $('live').setAttribute('aria-pressed', String(shown.live && !lostSince));
  $('older').disabled = shown.at <= 0;
  $('newer').disabled = shown.at >= shown.moments.length - 1;
  if (m && $('moment').dataset.revision !== String(m.revision)) {
    $('moment').dataset.revision = m.revision;
    $('moment').replaceChildren('Revision ' + m.revision + ', ', time(m.at), ': ' + m.change);
    slider.setAttribute('aria-valuetext', $('moment').textContent);
  }
  const ends = [shown.moments[0], shown.moments[shown.moments.length - 1]];
  for (const [i, id] of ['axis-from', 'axis-to'].entries()) $(id).replaceChildren(...(ends[i] && shown.moments.length > 1 ? [time(ends[i].at)] : []));
  rejectedUntil(shown.live || !m ? null : m.revision);
  listRejections(chooseRejection);
  markRejections(shown.moments, chooseRejection);
}

function go(at) {
  shown.at = Math.min(Math.max(at, 0), shown.moments.length - 1);
  shown.live = false;
  tell();
  link();
  refresh();
}

function goLive() {
  shown.live = true;
  shown.at = shown.moments.length - 1;
  tell();
  link();
  refresh();
}

// link writes what is shown into the address of the page.
function link() {
  if (!arrived) return;
  const p = new URLSearchParams();
  const put = (name, value, usual) => { if (value && value !== usual) p.set(name, value); };
  const cell = (shown.chosen && shown.chosen.cell) || '';
  put('pod', shown.chosen && shown.chosen.uids[0]);
  put('cpu', cell.startsWith('cpu') && cell.slice(3));
  put('device', cell.startsWith('device') && cell.slice(6));
  put('revision', !shown.live && shown.at >= 0 && String(shown.moments[shown.at].revision));
  put('search', $('search').value.trim());
  put('rejection', opened() && opened().uid);
  put('preview', shown.preview && String(shown.preview.proposal));
  put('use', $('use').getAttribute('aria-pressed') === 'true' ? 'yes' : '');
  put('interruptions', $('interruptions').getAttribute('aria-pressed') === 'true' ? 'yes' : '');
  put('wide', shown.wide === null ? '' : shown.wide ? 'yes' : 'no');
  put('zoom', $('zoom').value, '1');
  put('group', $('group').value, 'pod');
  put('sort', $('sort').value, 'admission');
  put('legend', shown.legend === null ? '' : shown.legend ? 'yes' : 'no');
  const to = p.size ? '?' + p : location.pathname;
  if (to !== location.search) history.replaceState(null, '', to);
}

// arrive reads the address, once; what depends on the node comes with the first answers.
let arrived = false;
const address = new URLSearchParams(location.search);
$('search').value = address.get('search') || '';
for (const id of ['group', 'sort']) if ([...$(id).options].some((o) => o.value === address.get(id))) $(id).value = address.get(id);
if (address.has('legend')) shown.legend = address.get('legend') !== 'no';
if (address.has('wide')) shown.wide = address.get('wide') !== 'no';
if ([...$('zoom').options].some((o) => o.value === address.get('zoom'))) $('zoom').value = address.get('zoom');

// fit arranges the map and the lists.
function fit() {
  const wide = shown.wide === null ? small.matches : shown.wide;
  document.querySelector('main').classList.toggle('wide', wide);
  $('wide').setAttribute('aria-pressed', String(wide));
  $('map').style.setProperty('--zoom', $('zoom').value);
  $('map').classList.toggle('zoomed', $('zoom').value !== '1');
}
fit();
small.addEventListener('change', fit);
for (const screen of [phone, tablet]) screen.addEventListener('change', () => refresh());

async function arrive() {
  if (arrived) return;
  arrived = true;
  const revision = address.get('revision'), rejection = newestOf(address.get('rejection'));
  const uids = address.get('pod') ? [address.get('pod')] : [];
  if (address.get('cpu')) shown.chosen = { cell: 'cpu' + address.get('cpu'), uids };
  else if (address.get('device')) shown.chosen = { cell: 'device' + address.get('device'), uids };
  else if (uids.length) shown.chosen = { cell: null, uids };
  if (revision) {
    const at = shown.moments.findIndex((m) => String(m.revision) === revision);
    if (at >= 0) go(at);
    else notice('Revision ' + revision + ' is not kept any more: this is the node as it is now.', true);
  }
  if (rejection) chooseRejection(rejection, true, address.get('preview'));
  else if (address.get('rejection')) notice('The rejection of pod ' + address.get('rejection') + ' is not kept any more.', true);
  if (shown.chosen) await details();
  if (address.get('use') === 'yes') await showUse(true, useChanged);
  if (address.get('interruptions') === 'yes') await showInterruptions(true, shade);
}

// notice shows why the map is not in force, and greys it; of what only concerns the page it does not.
function notice(text, harmless) {
  $('notice').textContent = text;
  $('notice').hidden = !text;
  $('picture').classList.toggle('stale', Boolean(text) && !harmless);
}

// warning shows a problem that the map does not show.
function warning(text) {
  $('warning').textContent = text;
  $('warning').hidden = !text;
}

// lost greys the map while no agent answers.
function lost(since) {
  $('lost').hidden = !since;
  if (since) $('lost').replaceChildren('The agent does not answer since ', time(since.toISOString()), '. The map may be out of date.');
  $('picture').classList.toggle('lost', Boolean(since));
  $('live').setAttribute('aria-pressed', String(shown.live && !since));
}
let lostSince = null;

// connect follows the events. After the stream broke everything is asked for again: it may be
// another program that answers.
function connect() {
  const events = new EventSource('events');
  events.addEventListener('hello', async (e) => {
    shown.instance = JSON.parse(e.data).instance;
    $('connection').className = 'on';
    $('connection').textContent = 'live';
    lostSince = null;
    lost(null);
    try {
      const answer = await ask('api/history');
      const revision = shown.at >= 0 && !shown.live ? shown.moments[shown.at].revision : null;
      notice(answer.notice || '');
      warning(answer.warning || '');
      shown.moments = answer.moments;
      shown.at = shown.moments.findIndex((m) => m.revision === revision);
      delete $('moment').dataset.revision;
      await askRejections(chooseRejection);
      shown.rejections = answer.rejections;
      if (shown.at < 0) goLive();
      else { tell(); refresh(); }
      await arrive();
    } catch (error) {
      $('moment').textContent = error.message;
    }
  });
  events.addEventListener('notice', (e) => {
    const now = JSON.parse(e.data);
    notice(now.text);
    warning(now.warning || '');
  });
  events.addEventListener('change', (e) => {
    const change = JSON.parse(e.data), last = shown.moments.length ? shown.moments[shown.moments.length - 1].revision : -1;
    const fresh = change.moments.filter((m) => m.revision > last);
    shown.moments.push(...fresh);
    const gone = Math.max(0, shown.moments.length - 1000);
    shown.moments.splice(0, gone);
    if (shown.live) {
      shown.at = shown.moments.length - 1;
      tell();
      if (fresh.length) refresh();
    } else {
      shown.at = Math.max(0, shown.at - gone);
      tell();
    }
    if (change.rejections !== shown.rejections) {
      shown.rejections = change.rejections;
      askRejections(chooseRejection).then(tell).catch(() => {});
    }
  });
  events.onerror = () => {
    $('connection').className = 'off';
    $('connection').textContent = 'not connected, trying again';
    lostSince = lostSince || new Date();
    lost(lostSince);
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
}

// cursor moves from cell to cell by where they are.
function move(cell, dx, dy) {
  const from = cell.getBoundingClientRect(), x = from.left + from.width / 2, y = from.top + from.height / 2;
  let best = null, least = Infinity;
  for (const c of cells()) {
    const r = c.getBoundingClientRect(), cx = r.left + r.width / 2 - x, cy = r.top + r.height / 2 - y;
    const ahead = cx * dx + cy * dy, aside = Math.abs(cx * dy) + Math.abs(cy * dx);
    if (ahead > 1 && aside <= ahead * 2 && ahead + aside * 3 < least) { best = c; least = ahead + aside * 3; }
  }
  if (!best) return;
  cell.setAttribute('tabindex', '-1');
  best.setAttribute('tabindex', '0');
  shown.cursor = best.id;
  best.focus();
}

function leaveDetails() {
  shown.chosen = null;
  $('details').classList.remove('open');
  $('details-body').replaceChildren(element('p', { class: 'faint' }, 'Choose a CPU, a device or a pod.'));
  list();
  highlight();
  link();
}

const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
$('map').addEventListener('keydown', (e) => {
  const cell = e.target.closest('.cpu, .device');
  if (!cell) return;
  if (steps[e.key]) { e.preventDefault(); move(cell, ...steps[e.key]); }
  if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); chooseCell(cell); }
});
$('map').addEventListener('click', (e) => {
  const cell = e.target.closest('.cpu, .device');
  if (cell) { shown.cursor = cell.id; chooseCell(cell); }
});
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest('input, select, textarea')) {
    e.preventDefault();
    $('search').focus();
    $('search').select();
  }
  if (e.key !== 'Escape') return;
  $('search').value = '';
  if (opened()) leaveRejection();
  leaveDetails();
});
$('searching').addEventListener('submit', (e) => e.preventDefault());
$('search').addEventListener('input', () => { list(); highlight(); link(); });
$('group').addEventListener('change', () => { link(); refresh(); });
$('sort').addEventListener('change', () => { list(); link(); });
$('legend').addEventListener('click', async () => {
  shown.legend = !legendShown();
  link();
  await refresh();
  const svg = $('map').firstElementChild; // The legend is its end.
  if (legendShown() && svg) svg.scrollIntoView({ block: 'end' });
});
$('use').addEventListener('click', async () => { await showUse($('use').getAttribute('aria-pressed') !== 'true', useChanged); link(); });
$('interruptions').addEventListener('click', async () => { await showInterruptions($('interruptions').getAttribute('aria-pressed') !== 'true', shade); link(); });
$('zoom').addEventListener('change', () => { fit(); link(); });
$('wide').addEventListener('click', () => { shown.wide = $('wide').getAttribute('aria-pressed') !== 'true'; fit(); link(); });
$('why-close').addEventListener('click', leaveRejection);
$('preview-close').addEventListener('click', () => preview(null));
$('details-close').addEventListener('click', leaveDetails);
$('slider').addEventListener('input', () => { const at = Number($('slider').value); if (at === shown.moments.length - 1) goLive(); else go(at); });
$('older').addEventListener('click', () => go(shown.at - 1));
$('newer').addEventListener('click', () => (shown.at + 1 >= shown.moments.length - 1 ? goLive() : go(shown.at + 1)));
$('live').addEventListener('click', goLive);
connect();
