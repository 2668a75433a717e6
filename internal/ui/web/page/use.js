'use strict';
// How busy the CPUs are: a bar in each cell, as high as the share of time in which the CPU was busy. The
// agent reads once a minute, so asking more often than every few seconds shows nothing new.
import { $, ask, cpus } from './text.js';
import { markInterruptions, spoken } from './interruptions.js';

const every = 10000;
let use = null, timer = null, live = true;

const pressed = () => $('use').getAttribute('aria-pressed') === 'true';

// number is an amount of CPUs with one decimal place.
const number = (n) => String(Math.round(n * 10) / 10);

// usesOf has a sentence for each owner of CPUs of a pod, or none while nothing is shown.
export function usesOf(uid) {
  if (!pressed() || !live || !use) return [];
  return use.owners.filter((o) => o.uid === uid).map((o) => (o.container ? 'container ' + o.container : 'shared pool of the pod') + ': ' + (o.seconds === 0 ? 'not measured yet' :
    number(o.mean) + ' of ' + cpus(o.cpus) + ' on average, at most ' + number(o.peak) + ' in a minute, measured for ' + Math.max(1, Math.round(o.seconds / 60)) + ' min' +
    (o.idleCPUs ? '; ' + o.idleCPUs + ' idle' : '')));
}

// shade draws the bars again, and those of interruptions. The picture loses them when it is drawn.
export function shade() {
  for (const e of document.querySelectorAll('#map .busy')) e.remove();
  const on = pressed();
  for (const cell of document.querySelectorAll('#map .cpu')) {
    const share = on && live && use ? use.cpus[cell.dataset.cpu] : undefined, about = cell.querySelector('title').textContent;
    cell.setAttribute('aria-label', (share === undefined ? about : about + ', ' + Math.round(100 * share) + ' % busy') + spoken(cell.dataset.cpu, live));
    const frame = cell.querySelector('rect');
    if (share === undefined || !frame) continue;
    const size = (name) => Number(frame.getAttribute(name)), height = Math.round(share * (size('height') - 2));
    const bar = document.createElementNS(frame.namespaceURI, 'rect');
    for (const [k, v] of Object.entries({ class: 'busy', x: size('x') + 1, y: size('y') + size('height') - 1 - height, width: 4, height })) bar.setAttribute(k, String(v));
    cell.append(bar);
  }
  markInterruptions(live);
  $('use-about').hidden = !on;
  if (on) $('use-about').textContent = about();
}

function about() {
  if (!live) return 'How busy CPUs were is not kept: go to the present state to see it.';
  if (!use) return '';
  if (!use.at) return 'The first numbers come some seconds after the start of the agent.';
  return 'The bar in a CPU is the share of ' + Math.round(use.seconds) + ' s in which it was busy, ' + Math.round(use.age) + ' s ago. ' +
    (use.reservedCPUs ? use.idleCPUs + ' of ' + use.reservedCPUs + ' CPUs that one container or pod has were not needed in the last hour.' : '');
}

// showUse begins or ends asking; changed is called when there are new numbers.
export async function showUse(on, changed) {
  $('use').setAttribute('aria-pressed', String(on));
  clearTimeout(timer);
  if (!on) use = null;
  else {
    try {
      use = await ask('api/use');
    } catch (e) {
      use = null;
      shade();
      $('use-about').textContent = e.message;
    }
    if (!pressed()) return;
    timer = setTimeout(() => showUse(pressed(), changed), every);
    if (!use) return;
  }
  shade();
  changed();
}

// presentOnly hides the bars while a past state is shown.
export function presentOnly(isLive) {
  if (live === isLive) return;
  live = isLive;
  shade();
}
