'use strict';
// The steps of a decision, each with a title, sentences and tables.
import { element } from './text.js';

const word = (name) => (w) => element(name, w.tone ? { class: w.tone } : {}, w.text);

// sections are the elements of a list of steps.
export const sections = (list) => element('div', { class: 'decided' }, ...(list || []).map((s) => element('section', {},
  element('h4', {}, s.title, s.about ? element('span', { class: 'faint' }, ': ' + s.about) : ''),
  ...s.blocks.map((b) => (b.table ? element('table', {}, element('tbody', {}, ...b.table.map((row) => element('tr', {}, ...row.map(word('td')))))) :
    element('p', {}, ...b.sentence.flatMap((w) => [word('span')(w), ' '])))))));
