'use strict';
// How often exclusive CPUs are interrupted: a bar at the right of each cell. One step of it is ten times as
// often, because a quiet CPU has one interrupt a second and a loud one ten thousand.
import { $, ask } from './text.js';

const every = 15000, steps = 4;
let counted = null, timer = null;

const pressed = () => $('interruptions').getAttribute('aria-pressed') === 'true';

// number is a rate without digits that mean nothing.
const number = (n) => (n >= 10 ? String(Math.round(n)) : String(Math.round(n * 10) / 10));

const names = { device: 'devices', timer: 'timer', ipi: 'other CPUs', other: 'others', softirq: 'softirqs' };

// spoken is what a screen reader adds to a CPU, or ''.
export function spoken(cpu, live) {
  const of = pressed() && live && counted ? counted.cpus[cpu] : undefined;
  if (!of) return '';
  const sources = Object.entries(of.sources).sort((a, b) => b[1] - a[1]).map(([source, n]) => names[source] + ' ' + number(n));
  return ', interrupted ' + number(of.perSecond) + ' times a second' + (sources.length ? ': ' + sources.join(', ') : '');
}

// markInterruptions draws the bars again. The picture loses them when it is drawn.
export function markInterruptions(live) {
  for (const e of document.querySelectorAll('#map .noise')) e.remove();
  const on = pressed();
  if (on && live && counted) {
    for (const cell of document.querySelectorAll('#map .cpu')) {
      const of = counted.cpus[cell.dataset.cpu], frame = cell.querySelector('rect');
      if (!of || !frame) continue;
      const size = (name) => Number(frame.getAttribute(name)), share = Math.min(1, Math.max(0, Math.log10(Math.max(1, of.perSecond)) / steps));
      const height = Math.max(1, Math.round(share * (size('height') - 2)));
      const bar = document.createElementNS(frame.namespaceURI, 'rect');
      for (const [k, v] of Object.entries({ class: 'noise', x: size('x') + size('width') - 5, y: size('y') + size('height') - 1 - height, width: 4, height })) bar.setAttribute(k, String(v));
      cell.append(bar);
    }
  }
  $('interruptions-about').hidden = !on;
  if (on) $('interruptions-about').textContent = about(live);
}

function about(live) {
  if (!live) return 'How often CPUs were interrupted is not kept: go to the present state to see it.';
  if (!counted) return '';
  const missing = counted.missing ? ' Some are not counted: ' + counted.missing : '';
  if (!counted.seconds) return 'No exclusive CPU was counted yet: the first numbers come 15 s after the start of the agent.' + missing;
  return 'The bar at the right of an exclusive CPU is how often it was interrupted in ' + Math.round(counted.seconds) + ' s, ' + Math.round(counted.age) +
    ' s ago: a quarter is 10 times a second, the half 100, three quarters 1000. "paddock noise" on the node shows by whom.' + missing;
}

// showInterruptions begins or ends asking; changed is called when there are new numbers.
export async function showInterruptions(on, changed) {
  $('interruptions').setAttribute('aria-pressed', String(on));
  clearTimeout(timer);
  counted = on ? counted : null;
  let failed = '';
  if (on) {
    try {
      counted = await ask('api/interruptions');
    } catch (e) {
      counted = null;
      failed = e.message;
    }
    if (!pressed()) return;
    timer = setTimeout(() => showInterruptions(pressed(), changed), every);
  }
  changed();
  if (failed) $('interruptions-about').textContent = failed;
}
