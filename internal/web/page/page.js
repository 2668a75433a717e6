'use strict';
// The page follows the node: it reads, and has no way to change anything. What it shows comes from
// /api; /events says when there is something new. Texts are put in as text, never as markup.
(() => {
  const $ = (id) => document.getElementById(id);
  const shown = { moments: [], at: -1, live: true, state: null, refusals: 0, instance: '', chosen: null, cursor: null };

  // element makes an element with properties, and children that are elements or text.
  function element(name, properties, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (key === 'class') e.className = value;
      else if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) e.setAttribute(key, String(value));
    }
    e.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
    return e;
  }

  async function ask(path) {
    const answer = await fetch(path, { headers: { Accept: 'application/json' } });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || answer.statusText);
    return found;
  }

  // askPicture lets the browser parse the SVG; nothing of it becomes markup of the page.
  function askPicture(path) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open('GET', path);
      request.responseType = 'document';
      request.overrideMimeType('image/svg+xml');
      request.onload = () => {
        const root = request.response && request.response.documentElement;
        if (request.status === 200 && root && root.localName === 'svg') resolve(root);
        else reject(new Error('no picture'));
      };
      request.onerror = () => reject(new Error('no answer'));
      request.send();
    });
  }

  // become changes the element old into one like fresh, and only where they differ: what stays keeps
  // its focus and does not flicker.
  const ours = new Set(['tabindex', 'role', 'aria-label']);
  function become(old, fresh) {
    for (const a of [...old.attributes]) if (!fresh.hasAttribute(a.name) && !ours.has(a.name)) old.removeAttribute(a.name);
    for (const a of fresh.attributes) if (!ours.has(a.name) && old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
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

  function draw(fresh) {
    const old = $('map').firstElementChild;
    if (old) become(old, fresh);
    else $('map').append(document.importNode(fresh, true));
    const svg = $('map').firstElementChild;
    svg.setAttribute('role', 'group');
    svg.setAttribute('aria-describedby', 'map-help');
    const cells = cpus();
    if (!cells.some((c) => c.dataset.cpu === shown.cursor)) shown.cursor = cells.length ? cells[0].dataset.cpu : null;
    for (const c of cells) {
      c.setAttribute('role', 'button');
      c.setAttribute('tabindex', c.dataset.cpu === shown.cursor ? '0' : '-1');
      c.setAttribute('aria-label', c.querySelector('title').textContent);
    }
    highlight();
  }

  const cpus = () => [...document.querySelectorAll('#map .cpu')];

  // matches says which pods the search finds; null: there is no search.
  function matches() {
    const text = $('search').value.trim().toLowerCase();
    if (!text || !shown.state) return null;
    return new Set(shown.state.pods.filter((p) =>
      p.pod.toLowerCase().includes(text) || p.uid.toLowerCase() === text || (p.containers || []).some((c) => c.name.toLowerCase().includes(text))
    ).map((p) => p.uid));
  }

  function highlight() {
    const found = matches(), chosen = shown.chosen;
    for (const c of cpus()) {
      const uid = c.dataset.pod;
      c.classList.toggle('dim', found ? !found.has(uid) : Boolean(chosen && chosen.uid && uid !== chosen.uid));
      c.classList.toggle('chosen', Boolean(chosen && chosen.cpu === c.dataset.cpu));
    }
  }

  function listPods() {
    const found = matches();
    const pods = (shown.state ? shown.state.pods : []).filter((p) => !found || found.has(p.uid));
    $('pods-count').textContent = shown.state ? (found ? pods.length + ' of ' + shown.state.pods.length : String(pods.length)) : '';
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.uid : null;
    $('pods').replaceChildren(...pods.map((p) => element('li', {},
      element('button', { type: 'button', 'data-uid': p.uid, 'aria-current': Boolean(shown.chosen && shown.chosen.uid === p.uid) && 'true', onclick: () => choosePod(p.uid) },
        element('span', { class: 'tag ' + (p.slot < 0 ? 'none' : 'k' + p.slot % 7) }, p.tag || ' '),
        element('span', { class: 'name' }, p.pod), element('span', { class: 'faint' }, (p.cpus ? cpuCount(p.cpus) : 'node shared pool') + (p.estimated ? ', estimated' : ''))))));
    if (focused) {
      const again = [...document.querySelectorAll('#pods button')].find((b) => b.dataset.uid === focused);
      if (again) again.focus();
    }
  }

  function cpuCount(set) {
    let n = 0;
    for (const range of set.split(',')) {
      const [first, last] = range.split('-').map(Number);
      n += (last === undefined ? first : last) - first + 1;
    }
    return n === 1 ? '1 CPU' : n + ' CPUs';
  }

  const when = (text) => new Date(text).toLocaleString();
  const row = (name, value) => (value ? [element('dt', {}, name), element('dd', {}, value)] : []);

  async function chooseCPU(id) {
    const cell = $('cpu' + id);
    if (!cell) return;
    shown.chosen = { cpu: id, uid: cell.dataset.pod };
    await details();
  }

  async function choosePod(uid) {
    shown.chosen = { cpu: null, uid };
    await details();
    $('details').focus({ preventScroll: false });
  }

  // details shows what was chosen, as it is in the generation that is shown.
  let asked = 0;
  async function details() {
    highlight();
    for (const b of document.querySelectorAll('#pods button')) {
      if (shown.chosen && b.dataset.uid === shown.chosen.uid) b.setAttribute('aria-current', 'true');
      else b.removeAttribute('aria-current');
    }
    if (!shown.chosen) return;
    const mine = ++asked, parts = [];
    if (shown.chosen.cpu !== null) {
      const cell = $('cpu' + shown.chosen.cpu);
      if (cell) parts.push(element('p', {}, cell.querySelector('title').textContent));
    }
    if (shown.chosen.uid) {
      try {
        parts.push(...podParts(await ask('api/pods/' + encodeURIComponent(shown.chosen.uid) + query())));
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
    return [
      element('h3', {}, p.pod),
      element('dl', {}, ...row('UID', p.uid), ...row('QoS', p.qos), ...row('Request', p.estimated ? 'estimated from cgroup numbers' : ''), ...row('CPUs', p.cpus), ...row('Offline', p.offlineCPUs ? p.offlineCPUs + ' of them; the pod is degraded' : ''), ...row('Memory', (p.memory || []).map((b) => bytes(b.bytes) + ' ' + b.type + ' on NUMA ' + b.numaNodes.join(', ')).join('; ')),
        ...row('Quota', p.quota === 'lifted' ? 'none' : p.quota), ...row('Since', p.since ? when(p.since) + ', revision ' + p.sinceGeneration : 'not known; revision ' + p.sinceGeneration)),
      element('table', {}, element('thead', {}, element('tr', {}, ...['Container', 'Kind', 'Isolation', 'CPUs', 'Memory on'].map((t) => element('th', { scope: 'col' }, t)))), element('tbody', {}, ...containers)),
      element('h3', {}, 'Why'),
      p.anew ? element('p', { class: 'faint' }, 'The agent that is running now did not make the decision. This is what it would decide if the pod were new:') : null,
      element('pre', { tabindex: '0', 'aria-label': 'Explanation' }, p.explanation),
    ].filter((e) => e);
  }

  function bytes(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let i = 0;
    while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
    return Math.round(n * 10) / 10 + ' ' + units[i];
  }

  const query = () => (shown.live || shown.at < 0 ? '' : '?generation=' + shown.moments[shown.at].generation);

  // refresh asks for the generation that is shown. Calls that come meanwhile are one call.
  let running = false, again = false;
  async function refresh() {
    if (running) { again = true; return; }
    running = true;
    try {
      do {
        again = false;
        const [state, picture] = await Promise.all([ask('api/state' + query()), askPicture('api/map.svg' + query())]);
        shown.state = state;
        document.title = state.machine + ' – Paddock';
        $('machine').textContent = state.machine;
        draw(picture);
        listPods();
        tell();
        if (shown.chosen) await details();
      } while (again);
    } catch (e) {
      $('moment').textContent = e.message;
    } finally {
      running = false;
    }
  }

  // tell says which generation is shown.
  function tell() {
    const slider = $('slider'), m = shown.moments[shown.at];
    slider.max = Math.max(0, shown.moments.length - 1);
    slider.value = shown.at;
    document.body.classList.toggle('past', !shown.live);
    $('live').setAttribute('aria-pressed', String(shown.live));
    $('older').disabled = shown.at <= 0;
    $('newer').disabled = shown.at >= shown.moments.length - 1;
    const text = m ? 'Revision ' + m.generation + ', ' + when(m.at) + ': ' + m.change : '';
    if ($('moment').textContent !== text) $('moment').textContent = text;
    slider.setAttribute('aria-valuetext', text);
  }

  function go(at) {
    shown.at = Math.min(Math.max(at, 0), shown.moments.length - 1);
    shown.live = false;
    tell();
    refresh();
  }

  function goLive() {
    shown.live = true;
    shown.at = shown.moments.length - 1;
    tell();
    refresh();
  }

  async function listRefusals() {
    const list = await ask('api/refusals');
    const before = new Map([...$('refusals').children].map((d) => [d.dataset.key, d]));
    const inside = document.activeElement && document.activeElement.closest('#refusals > details');
    $('refusals-count').textContent = String(list.length);
    // What is the same stays as it is, with what was found for it.
    $('refusals').replaceChildren(...(list.length ? list.map((r) => {
      const old = before.get(r.uid + r.first);
      return old && old.dataset.number === String(r.number) ? old : refusalParts(r, Boolean(old && old.open));
    }) : [element('p', { class: 'faint' }, 'No pod lately.')]));
    const again = inside && [...$('refusals').children].find((d) => d.dataset.key === inside.dataset.key);
    if (again) again.querySelector('summary').focus();
  }

  // inTurn does one thing after the other: what is costly for the agent is asked for one at a time.
  let turn = Promise.resolve();
  const inTurn = (work) => (turn = turn.then(work, work));

  // proposals asks what would admit a pod that was refused, when somebody opens the refusal.
  function proposals(refusal, into) {
    if (!refusal.open) return;
    const said = element('p', { role: 'status' });
    into.replaceChildren(said);
    said.textContent = 'Looking for what would admit it …';
    inTurn(async () => {
      if (!refusal.open || !refusal.isConnected || said.parentNode !== into) return;
      try {
        const found = await ask('api/refusals/' + encodeURIComponent(refusal.dataset.number));
        const remedies = found.remedies || { proposals: [], tried: [] };
        said.textContent = verdict(found, remedies);
        into.append(...remedyParts(found, remedies));
      } catch (e) {
        said.textContent = e.message;
      }
    });
  }

  function verdict(found, remedies) {
    const n = remedies.proposals.length;
    if (found.wouldAdmit) return 'By now it would be admitted.';
    if (!found.remedies) return 'It was admitted after that.';
    return n === 0 ? 'Nothing that was tried would admit it.' : n + (n === 1 ? ' change' : ' changes') + ' would admit it, planned on the node as it is now:';
  }

  function remedyParts(found, remedies) {
    const plans = remedies.tried.reduce((sum, t) => sum + t.plans, 0);
    return [
      remedies.proposals.length ? element('ul', { class: 'proposals', 'aria-label': 'What would admit it' }, ...remedies.proposals.map((p) =>
        element('li', {}, element('span', { class: 'do' }, p.text), ' ', element('span', { class: 'faint' }, p.outcome)))) : null,
      element('ul', { class: 'faint', 'aria-label': 'How it stands' }, ...(found.standing || []).map((s) => element('li', {}, s))),
      remedies.tried.length ? element('p', { class: 'faint' }, 'Tried, in ' + plans + (plans === 1 ? ' plan: ' : ' plans: ') + remedies.tried.map((t) => t.what + ' (' + t.found + ')').join('; ')) : null,
    ].filter((e) => e);
  }

  function refusalParts(r, open) {
    const remedies = element('div', { class: 'remedies' });
    const account = r.refusal && r.refusal.nodes ? element('table', {},
      element('thead', {}, element('tr', {}, ...['NUMA node', 'For pods', 'Free', 'Assigned to'].map((t) => element('th', { scope: 'col' }, t)))),
      element('tbody', {}, ...r.refusal.nodes.map((n) => element('tr', {}, element('th', { scope: 'row' }, String(n.numaNode)),
        element('td', {}, amount(r.refusal.resource, n.total)), element('td', {}, amount(r.refusal.resource, n.free)),
        element('td', {}, (n.holders || []).map((h) => h.pod + ' ' + amount(r.refusal.resource, h.amount)).join(', ')))))) : null;
    return element('details', { 'data-key': r.uid + r.first, 'data-number': r.number, open: open && '', ontoggle: (e) => proposals(e.target, remedies) },
      element('summary', {}, element('span', { class: 'bad' }, r.refusal ? r.refusal.reason : 'not written'), ' ' + r.pod + (r.times > 1 ? ' (' + r.times + ' times)' : '') + ', ' + when(r.last)),
      element('p', {}, r.error || (r.refusal ? (r.refusal.container ? 'container ' + r.refusal.container + ': ' : '') + r.refusal.message + ' (' + r.refusal.rule + ')' : '')),
      remedies, account || '', r.explanation ? element('pre', { tabindex: '0', 'aria-label': 'Explanation' }, r.explanation) : '');
  }

  const amount = (resource, n) => (resource === 'memory' || (resource || '').startsWith('hugepages-') ? bytes(n) : String(n));

  // notice shows why the map is not in force, and greys it.
  function notice(text) {
    $('notice').textContent = text;
    $('notice').hidden = !text;
    $('picture').classList.toggle('stale', Boolean(text));
  }

  // connect follows the events. After the stream broke everything is asked for again: it may be
  // another program that answers.
  function connect() {
    const events = new EventSource('events');
    events.addEventListener('hello', async (e) => {
      shown.instance = JSON.parse(e.data).instance;
      $('connection').className = 'on';
      $('connection').textContent = 'live';
      try {
        const history = await ask('api/history');
        const generation = shown.at >= 0 && !shown.live ? shown.moments[shown.at].generation : null;
        notice(history.notice || '');
        shown.moments = history.moments;
        shown.at = shown.moments.findIndex((m) => m.generation === generation);
        if (shown.at < 0) goLive();
        else { tell(); refresh(); }
        await listRefusals();
        shown.refusals = history.refusals;
      } catch (error) {
        $('moment').textContent = error.message;
      }
    });
    events.addEventListener('notice', (e) => notice(JSON.parse(e.data).text));
    events.addEventListener('change', (e) => {
      const change = JSON.parse(e.data), last = shown.moments.length ? shown.moments[shown.moments.length - 1].generation : -1;
      const fresh = change.moments.filter((m) => m.generation > last);
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
      if (change.refusals !== shown.refusals) {
        shown.refusals = change.refusals;
        listRefusals().catch(() => {});
      }
    });
    events.onerror = () => {
      $('connection').className = 'off';
      $('connection').textContent = 'not connected, trying again';
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }

  // cursor moves from cell to cell by where they are.
  function move(cell, dx, dy) {
    const from = cell.getBoundingClientRect(), x = from.left + from.width / 2, y = from.top + from.height / 2;
    let best = null, least = Infinity;
    for (const c of cpus()) {
      const r = c.getBoundingClientRect(), cx = r.left + r.width / 2 - x, cy = r.top + r.height / 2 - y;
      const ahead = cx * dx + cy * dy, aside = Math.abs(cx * dy) + Math.abs(cy * dx);
      if (ahead > 1 && aside <= ahead * 2 && ahead + aside * 3 < least) { best = c; least = ahead + aside * 3; }
    }
    if (!best) return;
    cell.setAttribute('tabindex', '-1');
    best.setAttribute('tabindex', '0');
    shown.cursor = best.dataset.cpu;
    best.focus();
  }

  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  $('map').addEventListener('keydown', (e) => {
    const cell = e.target.closest('.cpu');
    if (!cell) return;
    if (steps[e.key]) { e.preventDefault(); move(cell, ...steps[e.key]); }
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); chooseCPU(cell.dataset.cpu); }
  });
  $('map').addEventListener('click', (e) => {
    const cell = e.target.closest('.cpu');
    if (cell) { shown.cursor = cell.dataset.cpu; chooseCPU(cell.dataset.cpu); }
  });
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape') return;
    shown.chosen = null;
    $('search').value = '';
    $('details-body').replaceChildren(element('p', { class: 'faint' }, 'Choose a CPU or a pod.'));
    listPods();
    highlight();
  });
  $('searching').addEventListener('submit', (e) => e.preventDefault());
  $('search').addEventListener('input', () => { listPods(); highlight(); });
  $('slider').addEventListener('input', () => { const at = Number($('slider').value); if (at === shown.moments.length - 1) goLive(); else go(at); });
  $('older').addEventListener('click', () => go(shown.at - 1));
  $('newer').addEventListener('click', () => (shown.at + 1 >= shown.moments.length - 1 ? goLive() : go(shown.at + 1)));
  $('live').addEventListener('click', goLive);
  connect();
})();
