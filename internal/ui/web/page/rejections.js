'use strict';
// Rejections: their list, their marks on the slider, and the view that explains one of them.
import { $, element, ask, amount, time } from './text.js';
import { searched } from './pods.js';
import { sections } from './sections.js';

const key = (r) => r.uid + r.first;
let list = [], open = null; // open is the rejection that is explained, or null.

export const opened = () => open;

function sentence(r) {
  if (r.error) return r.error;
  return (r.rejection.container ? 'container ' + r.rejection.container + ': ' : '') + r.rejection.message;
}

const finds = (r, text) => !text || r.pod.toLowerCase().includes(text) || r.uid.toLowerCase() === text || sentence(r).toLowerCase().includes(text) ||
  Boolean(r.rejection && r.rejection.reason.toLowerCase().includes(text));

// rejectedUntil limits the list to what was rejected up to a revision; null is no limit.
let until = null;
export function rejectedUntil(revision) { until = revision; }

// listRejections shows those that the search finds. What is the same stays, so that no click and no focus
// is lost.
let listed = '';
export function listRejections(choose) {
  const known = list.filter((r) => until === null || r.revision <= until);
  const shown = known.filter((r) => finds(r, searched()));
  const now = JSON.stringify([known.length, searched(), open && key(open), shown.map((r) => [key(r), r.number])]);
  if (now === listed) return;
  listed = now;
  $('rejections-count').textContent = searched() ? shown.length + ' of ' + known.length : String(known.length);
  const focused = document.activeElement && document.activeElement.closest('#rejections button');
  $('rejections').replaceChildren(...(shown.length ? shown.map((r) => element('li', {}, element('button', {
    type: 'button', 'data-key': key(r), 'aria-current': Boolean(open && key(open) === key(r)) && 'true', onclick: () => choose(r),
  }, element('span', { class: 'bad' }, r.rejection ? r.rejection.reason : 'not written'), element('span', { class: 'name' }, r.pod + (r.times > 1 ? ' (' + r.times + ' times)' : '')), time(r.last)))) :
    [element('li', { class: 'faint' }, known.length ? 'None of ' + known.length + '.' : until === null ? 'No pod lately.' : 'No pod by then.')]));
  const again = focused && [...document.querySelectorAll('#rejections button')].find((b) => b.dataset.key === focused.dataset.key);
  if (again) again.focus();
}

// askRejections asks for all; what is explained and came again is explained again.
export async function askRejections(choose) {
  list = await ask('api/rejections');
  listRejections(choose);
  const same = open && list.find((r) => key(r) === key(open));
  if (same && same.number !== open.number) choose(same, true);
}

// newestOf is the newest rejection of a pod. A number would not do for an address: every time that the
// pod is rejected again it is another.
export const newestOf = (uid) => list.find((r) => r.uid === uid);

// markRejections puts a mark on the slider at the revision that each rejection was decided on.
export function markRejections(moments, choose) {
  const last = Math.max(1, moments.length - 1), at = new Map();
  for (const r of list) {
    const i = moments.findIndex((m) => m.revision === r.revision);
    if (i >= 0) at.set(i, [...(at.get(i) || []), r]);
  }
  $('marks').replaceChildren(...[...at].map(([i, rejected]) => {
    const names = rejected.slice(0, 3).map((r) => r.pod).join(', ') + (rejected.length > 3 ? ' and ' + (rejected.length - 3) + ' more' : '');
    const mark = element('button', { type: 'button', class: 'mark', title: 'rejected: ' + names, 'aria-label': 'Rejected in revision ' + moments[i].revision + ': ' + names, onclick: () => choose(rejected[0]) });
    mark.style.left = 'calc(.5rem + (100% - 1rem) * ' + i / last + ')'; // The slider's thumb is a rem wide.
    return mark;
  }));
}

// inTurn does one thing after the other: what is costly for the agent is asked for one at a time.
let turn = Promise.resolve();
const inTurn = (work) => (turn = turn.then(work, work));

// explainRejection shows the view; marked is called with why NUMA nodes fail, preview with what is to be
// shown on the map.
export function explainRejection(r, marked, preview, proposal) {
  open = r;
  const status = element('p', { role: 'status' }, 'Looking for what would admit it …');
  const answer = element('div', {}), folded = element('div', {});
  $('why-title').replaceChildren('Why ' + r.pod + ' was rejected');
  $('why-body').replaceChildren(
    element('p', { class: 'sentence' }, element('span', { class: 'bad' }, r.rejection ? r.rejection.reason : 'not written'), ' ' + sentence(r) + ' ',
      r.rejection && r.rejection.rule ? element('a', { href: 'rules/' + r.rejection.rule, target: '_blank', rel: 'noopener' }, 'The rule') : ''),
    element('p', { class: 'faint' }, r.times > 1 ? r.times + ' times, first ' : '', r.times > 1 ? time(r.first) : '', r.times > 1 ? ', last ' : '', time(r.last)),
    status, answer, folded);
  $('why').hidden = false;
  marked(accountMarks(r.rejection));
  inTurn(async () => {
    if (open !== r) return;
    try {
      const found = await ask('api/rejections/' + encodeURIComponent(r.number));
      if (open !== r) return;
      const remedies = found.remedies || { proposals: [], tried: [] };
      status.textContent = verdict(found, remedies);
      answer.replaceChildren(...proposals(r, found, remedies, preview));
      folded.replaceChildren(decision(r, found, remedies));
      if (!found.wouldAdmit && found.remedies) marked({ ...loserMarks(found.why), ...accountMarks(found.answer.rejection) });
      else marked({});
      if (proposal) {
        const b = [...document.querySelectorAll('#why .show')].find((x) => x.dataset.proposal === proposal);
        if (b) b.click();
      }
    } catch (e) {
      status.textContent = e.message;
    }
  });
}

export function closeWhy() {
  open = null;
  $('why').hidden = true;
}

function verdict(found, remedies) {
  const n = remedies.proposals.length;
  if (found.wouldAdmit) return 'By now it would be admitted.';
  if (!found.remedies) return 'It was admitted after that.';
  return n === 0 ? 'Nothing that was tried would admit it.' : n + (n === 1 ? ' change' : ' changes') + ' would admit it, planned on the node as it is now:';
}

function proposals(r, found, remedies, preview) {
  const shown = found.wouldAdmit ? [{ text: 'admitted now', outcome: '', number: 'now' }] : remedies.proposals.map((p, i) => ({ ...p, number: i }));
  if (!shown.length) return [];
  return [element('ul', { class: 'proposals', 'aria-label': 'Changes that would admit it' }, ...shown.map((p) => element('li', {},
    element('span', { class: 'do' }, p.text), ' ', element('span', { class: 'faint' }, p.outcome),
    p.kind === 'elsewhere' ? null : element('button', {
      type: 'button', class: 'show', 'aria-pressed': 'false', 'data-proposal': p.number,
      onclick: (e) => {
        const on = e.target.getAttribute('aria-pressed') !== 'true';
        for (const b of document.querySelectorAll('#why .show')) b.setAttribute('aria-pressed', String(on && b === e.target));
        preview(on ? { number: r.number, proposal: p.number, uid: r.uid, text: p.text } : null);
      },
    }, 'Show on the map'))))];
}

function decision(r, found, remedies) {
  const plans = remedies.tried.reduce((sum, t) => sum + t.plans, 0);
  return element('details', {}, element('summary', {}, 'How it was decided, and what was tried'),
    element('ul', { class: 'faint', 'aria-label': 'The state now' }, ...(found.standing || []).map((s) => element('li', {}, s))),
    remedies.tried.length ? element('p', { class: 'faint' }, 'Tried, in ' + plans + (plans === 1 ? ' plan: ' : ' plans: ') + remedies.tried.map((t) => t.what + ' (' + t.found + ')').join('; ')) : '',
    found.decided ? sections(found.decided) : '');
}

// accountMarks are the NUMA nodes that have less than was wanted, with what they have.
function accountMarks(refusal) {
  const marks = {};
  for (const n of (refusal && refusal.wanted && refusal.nodes) || []) {
    if (n.free < refusal.wanted) marks[n.numaNode] = 'needs ' + amount(refusal.resource, refusal.wanted) + (refusal.resource === 'cpu' ? ' CPUs' : '') + ', has ' + amount(refusal.resource, n.free);
  }
  return marks;
}

// loserMarks are why NUMA nodes alone do not serve the alignment that failed.
function loserMarks(why) {
  const failed = (why.alignments || []).find((a) => !a.admitted), marks = {};
  for (const l of (failed && failed.losers) || []) {
    if (l.numaNodes.length === 1) marks[l.numaNodes[0]] = l.why;
  }
  return marks;
}
