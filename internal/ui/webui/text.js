'use strict';
// What the other scripts are made of: elements, questions to the agent, and values as text. Texts are
// put in as text, never as markup.

export const $ = (id) => document.getElementById(id);

// element makes an element with properties, and children that are elements or text.
export function element(name, properties, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === 'class') e.className = value;
    else if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(key, String(value));
  }
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return e;
}

export async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: 'application/json' } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

// askPicture lets the browser parse the SVG; nothing of it becomes markup of the page.
export function askPicture(path) {
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

// bytes is a number of bytes as RoundedBytes of Go has it: below 10 TiB, GiB remain if a tenth of 1 TiB
// would hide some.
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let i = 0;
  while (n >= 1024) {
    const tenths = n / 1024 * 10;
    if (units[i] === 'GiB' && tenths < 100 && !Number.isInteger(tenths)) break;
    n /= 1024;
    i++;
  }
  return tenth(n) + ' ' + units[i];
}

// tenth rounds to one decimal, and halves to an even one, as Go does.
function tenth(n) {
  const tenths = n * 10;
  return (Math.abs(tenths % 2) === 0.5 ? Math.floor(tenths) : Math.round(tenths)) / 10;
}

export const amount = (resource, n) => (resource === 'memory' || (resource || '').startsWith('hugepages-') ? bytes(n) : String(n));

export function cpuCount(set) {
  let n = 0;
  for (const range of (set || '').split(',').filter(Boolean)) {
    const [first, last] = range.split('-').map(Number);
    n += (last === undefined ? first : last) - first + 1;
  }
  return n;
}

export const cpus = (n) => (n === 1 ? '1 CPU' : n + ' CPUs');

// ago is how long ago something was, for reading.
function ago(at) {
  const s = Math.max(0, (Date.now() - at) / 1000);
  for (const [unit, seconds] of [['days', 86400], ['h', 3600], ['min', 60]]) {
    if (s >= 2 * seconds || (unit !== 'days' && s >= seconds)) return Math.floor(s / seconds) + ' ' + unit + ' ago';
  }
  return s < 10 ? 'now' : Math.floor(s) + ' s ago';
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

// time is when something was, as "3 min ago", with the time, its zone and UTC in the tooltip.
export function time(text) {
  const at = new Date(text);
  return element('time', { datetime: text, title: exact.format(at) + ' · ' + at.toISOString().replace(/\.\d+Z$/, 'Z') }, ago(at));
}

setInterval(() => {
  for (const t of document.querySelectorAll('time')) {
    const text = ago(new Date(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
}, 10000);
