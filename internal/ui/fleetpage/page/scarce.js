'use strict';
// What is missing for the pods that every node rejects, and what would help: a few shapes of pods, and the
// others behind a button. It comes before the nodes, because it is why somebody looks at them.
import { $, element } from './text.js';
import { keep, put } from './keep.js';

// shape describes pods that ask for the same.
const shape = (s) => element('li', {},
  element('h3', {}, element('span', { class: 'bad' }, s.pods + ': '), s.asks),
  element('ul', {}, ...s.account.map((text) => element('li', {}, text)), ...s.smaller.map((text) => element('li', { class: 'good' }, text))),
  element('p', { class: 'faint' }, s.which));

// scarce shows what is missing; nothing, if no pod is rejected. What stays the same keeps its elements.
export function scarce(s) {
  $('scarce').hidden = !s;
  const { summary, shapes, others, more, unlisted } = s || { summary: '', shapes: [], others: [], more: '', unlisted: '' };
  put($('scarce-summary'), summary);
  const key = (x) => x.asks + '\n' + x.example;
  keep($('scarce-shapes'), shapes, key, shape);
  keep($('scarce-others'), others, key, shape);
  $('scarce-more').hidden = !more;
  put($('scarce-count'), more && 'and ' + more);
  put($('scarce-unlisted'), unlisted && 'Not listed: ' + unlisted + '.');
}
