'use strict';
(() => {
const $ = (id) => document.getElementById(id);
const D = JSON.parse($('data').textContent);
const S = { output: 0, player: D.ranking[0][0], colour: -1, row: 0, page: 0, sort: 'row', down: false, found: [] };
const PAGE = 12, COLUMNS = 30;

function number(x) {
  if (x === null) return 'not a number';
  const a = Math.abs(x);
  let t = x === 0 ? '0' : a < 1e-4 || a >= 1e6 ? x.toExponential(3)
    : x.toFixed(Math.max(0, 3 - Math.floor(Math.log10(a))));
  if (t.includes('.') && !t.includes('e')) t = t.replace(/\.?0+$/, '');
  return t.replace(/-/g, '−');
}
const signed = (x) => (x > 0 ? '+' : '') + number(x);
// Half of a 95 % interval, in standard deviations. Dots have intervals only if there are at most FEW rows.
const REACH = 1.959963984540054, FEW = 200;
const reach = (j, i) => D.sd ? REACH * D.sd[S.output][j][i] : null;
const within = (x, r) => signed(x) + (r === null ? '' : ` ± ${number(+r.toPrecision(2))}`);
function cell(column, i) {
  const c = D.columns[column], v = c.values[i];
  return c.levels ? c.levels[v] : number(v);
}
function label(player, i) {
  const p = D.players[player];
  return p.column === null ? p.name : `${p.name} = ${cell(p.column, i)}`;
}

const NS = document.querySelector('svg').namespaceURI;
function el(parent, name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
const INK = 'var(--rz-ink)', MUTED = 'var(--rz-muted)', GRID = 'var(--rz-grid)';
function write(svg, x, y, text, anchor, fill, room) {
  const e = el(svg, 'text', { x, y: y + 4, fill, 'text-anchor': anchor }, text);
  if (room && e.getComputedTextLength() > room) {
    let n = text.length;
    while (n > 1 && e.getComputedTextLength() > room) e.textContent = text.slice(0, --n) + '…';
    el(e, 'title', {}, text);
  }
  return e;
}
const line = (svg, x1, y1, x2, y2, stroke, dash) =>
  el(svg, 'path', { d: `M${x1} ${y1}L${x2} ${y2}`, stroke, fill: 'none', 'stroke-dasharray': dash || 'none' });
function picture(id, height, title) {
  const box = $(id), width = Math.max(280, Math.min(720, box.clientWidth));
  box.textContent = '';
  const svg = el(box, 'svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', class: 'rz', 'font-size': 12 });
  el(svg, 'title', {}, title);
  return [svg, width];
}
function scale(values, from, to) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
  const size = Math.max(Math.abs(lo), Math.abs(hi));
  const pad = hi - lo > size * 1e-12 ? (hi - lo) * 0.04 : size > 0 ? size / 2 : 1;
  lo -= pad; hi += pad;
  const at = (v) => from + (v - lo) / (hi - lo) * (to - from);
  const count = Math.max(2, Math.floor(Math.abs(to - from) / 70));
  const raw = (hi - lo) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) || raw;
  const ticks = [];
  for (let k = Math.ceil(lo / step), g = 0; k * step <= hi && g < 30; k++, g++) ticks.push(k * step);
  return { at, ticks, lo, hi };
}
function ramp(t) {
  const stops = [[31, 119, 190], [143, 141, 146], [217, 95, 2]];
  const u = Math.min(1, Math.max(0, t)) * 2, k = u < 1 ? 0 : 1;
  return `rgb(${stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * (u - k))).join(',')})`;
}

// As in plot/mod.rs: each of the most frequent levels has its own colour; the others share one.
const LEVELS = ['#4a6fd0', '#b07d00', '#00856f', '#c2416b', '#8a5fbf', '#5b7f1c'];
function levelColours(column) {
  const counts = column.levels.map(() => 0);
  for (const v of column.values) counts[v]++;
  const order = counts.map((_, k) => k).filter((k) => counts[k]).sort((a, b) => counts[b] - counts[a] || a - b);
  const own = order.slice(0, LEVELS.length), names = own.map((k, at) => [LEVELS[at], column.levels[k]]);
  if (order.length > own.length) names.push(['var(--rz-neutral)', `${order.length - own.length} others`]);
  return [(i) => LEVELS[own.indexOf(column.values[i])] || 'var(--rz-neutral)', names];
}

function dependence() {
  const p = D.players[S.player], ys = D.values[S.output][S.player];
  const title = `Dependence on ${p.name}`;
  $('dependence-title').textContent = title;
  const by = S.colour >= 0 ? D.columns[D.players[S.colour].column] : null;
  const [svg, width] = picture('dependence-plot', by && by.levels ? 402 : 380, title);
  const column = p.column === null ? null : D.columns[p.column];
  const xs = column ? column.values : D.rows;
  const left = 70, right = width - 12, bottom = 336;
  const levels = column && column.levels;
  const sure = D.sd && ys.length <= FEW ? ys.map((v, i) => reach(S.player, i)) : [];
  const y = scale([...ys, ...sure.flatMap((r, i) => [ys[i] - r, ys[i] + r])], bottom, 12);
  let x = scale(xs, left, right);
  if (levels) x = { at: (v) => left + (v + 0.5) / levels.length * (right - left), ticks: levels.map((_, k) => k) };
  const every = levels ? Math.ceil(30 * levels.length / (right - left)) : 1;
  x.ticks.forEach((v, k) => {
    if (!levels) line(svg, x.at(v), 12, x.at(v), bottom, GRID);
    if (k % every === 0) write(svg, x.at(v), bottom + 14, levels ? levels[v] : number(+v.toPrecision(12)), 'middle', MUTED,
      levels ? every * (right - left) / levels.length - 4 : 100);
  });
  for (const v of y.ticks) {
    line(svg, left, y.at(v), right, y.at(v), v === 0 ? MUTED : GRID);
    write(svg, left - 8, y.at(v), number(+v.toPrecision(12)), 'end', MUTED, left - 26);
  }
  write(svg, (left + right) / 2, bottom + 33, column ? (D.duels ? column.name : p.name) : p.size ? `${D.words[0]} (${p.name} has ${p.size} columns and no single value)` : `${D.words[0]} (the explanation has no feature values)`, 'middle', MUTED, right - left);
  const up = write(svg, 0, -4, `${D.value} of ${p.name}${sure.length ? ', 95 % intervals' : ''}`, 'middle', MUTED, bottom - 20);
  up.setAttribute('transform', `translate(14 ${bottom / 2}) rotate(-90)`);
  let colour = () => 'var(--rz-down)';
  if (by && by.levels) {
    const [of, names] = levelColours(by);
    colour = of;
    let at = left;
    for (const [fill, name] of names) {
      el(svg, 'circle', { cx: at, cy: 392, r: 4, fill });
      const e = write(svg, at + 9, 392, name, 'start', MUTED, 160);
      at += e.getComputedTextLength() + 26;
    }
  } else if (by) {
    const c = by.values, s = [...c].sort((a, b) => a - b);
    const lo = s[Math.floor((s.length - 1) * 0.05)], hi = s[Math.ceil((s.length - 1) * 0.95)];
    colour = (i) => lo === hi ? 'var(--rz-neutral)' : ramp((c[i] - lo) / (hi - lo));
  }
  xs.forEach((v, i) => {
    const jitter = levels ? ((i + 0.5) * 0.6180339887498949 % 1 - 0.5) / 2 : 0;
    if (sure.length) {
      const at = x.at(v + jitter).toFixed(1);
      el(svg, 'path', { d: `M${at} ${y.at(ys[i] - sure[i]).toFixed(1)}V${y.at(ys[i] + sure[i]).toFixed(1)}`, stroke: 'var(--rz-neutral)', 'stroke-opacity': 0.5 });
    }
    el(svg, 'circle', { cx: x.at(v + jitter).toFixed(1), cy: y.at(ys[i]).toFixed(1), r: 2.6, fill: colour(i), 'fill-opacity': 0.85, 'data-i': i });
  });
  for (const g of document.querySelectorAll('[data-player]')) g.classList.toggle('chosen', +g.dataset.player === S.player);
}

// The text of a row. The shade of a word is the sum of the values of the features that contain it.
const PLAYER_OF = new Map();
if (D.text !== null) D.players.forEach((p, j) => { for (const c of p.columns) PLAYER_OF.set(D.columns[c].name, j); });
const LONGEST = Math.max(1, ...[...PLAYER_OF.keys()].map((word) => word.split(' ').length));
function text(i) {
  const box = $('text');
  box.hidden = D.text === null;
  if (box.hidden) return;
  const pieces = cell(D.text, i).split(/([\p{L}\p{N}_]+)/u), values = D.values[S.output];
  const places = pieces.map((_, k) => k).filter((k) => k % 2), found = new Map(places.map((k) => [k, new Set()]));
  for (let first = 0; first < places.length; first++) for (let n = 1; n <= LONGEST && first + n <= places.length; n++) {
    const own = places.slice(first, first + n), name = own.map((k) => pieces[k]).join(' ');
    const j = PLAYER_OF.get(name) ?? PLAYER_OF.get(name.toLowerCase());
    if (j !== undefined) for (const k of own) found.get(k).add(j);
  }
  const worth = (k) => [...found.get(k)].reduce((s, j) => s + values[j][i], 0);
  const largest = Math.max(...places.map((k) => Math.abs(worth(k))), 0);
  box.textContent = '';
  pieces.forEach((piece, k) => {
    if (k % 2 === 0 || !found.get(k).size) { box.append(piece); return; }
    const mark = document.createElement('mark'), share = largest ? worth(k) / largest : 0;
    mark.textContent = piece;
    mark.style.background = `rgba(${share < 0 ? '31,111,178' : '213,94,0'},${(0.7 * Math.abs(share)).toFixed(3)})`;
    mark.title = [...found.get(k)].map((j) => `${D.players[j].name}: ${within(values[j][i], reach(j, i))}`).join(', ');
    box.append(mark);
  });
}

function waterfall() {
  text(S.row);
  const i = S.row, base = D.base[S.output][i], values = D.values[S.output].map((v) => v[i]);
  const order = values.map((_, j) => j).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]) || a - b);
  const keep = order.length <= 13 ? order.length : 12;
  const lines = order.slice(0, keep).map((j) => [label(j, i), values[j], reach(j, i)]);
  const rest = order.slice(keep);
  if (rest.length) lines.push([`Sum of ${rest.length} ${D.pairs ? 'others' : 'other features'}`, rest.reduce((s, j) => s + values[j], 0),
    D.sd && D.rest_sd[S.output][i] !== null ? REACH * D.rest_sd[S.output][i] : null]);
  if (!D.shares_all) lines.push(['not shared out', D.residuals[S.output][i], null]);
  const ends = [base];
  for (let k = lines.length - 1; k >= 0; k--) ends.unshift(ends[0] + lines[k][1]);
  const K = D.decisions, P = K && K.probabilities[S.output];
  const decided = (K && K.chosen ? `: ${K.classes[K.chosen[i]]}` : '') + (P ? `, P(${K.classes[P.class]}) = ${number(P.of[i])}` : '');
  const title = `${D.titles[i]}${decided}, step by step`;
  $('waterfall-title').textContent = title;
  $('duel-text').hidden = !(D.duels_text && D.duels_text[i]);
  $('duel-text').textContent = D.duels_text ? D.duels_text[i] || '' : '';
  const height = 34 + 28 * lines.length + 46;
  const [svg, width] = picture('waterfall-plot', height, title);
  const room = width * 0.34, bottom = 34 + 28 * lines.length;
  const whiskers = lines.map(([, , r], k) => r === null ? [] : [ends[k] - r, ends[k] + r]);
  const x = scale([...ends, ...whiskers.flat()], room + 20, width - (D.sd ? 110 : 62));
  for (const v of x.ticks) {
    line(svg, x.at(v), 34, x.at(v), bottom, GRID);
    write(svg, x.at(v), bottom + 13, number(+v.toPrecision(12)), 'middle', MUTED);
  }
  const head = (v, y, text) => {
    const e = write(svg, 0, y, text, 'middle', INK), half = e.getComputedTextLength() / 2 + 2;
    e.setAttribute('x', Math.min(Math.max(x.at(v), half), width - half));
  };
  line(svg, x.at(base), 34, x.at(base), bottom, MUTED, '2 3');
  head(ends[0], 14, `f(x) = ${number(D.predictions[S.output][i])}`);
  head(base, bottom + 32, `base value = ${number(base)}`);
  if ($('waterfall-sure')) {
    const p = D.first_is_stronger[S.output][i], name = (j) => D.players[j].name;
    $('waterfall-sure').textContent = 'Whiskers are 95 % intervals.'
      + (p === null ? '' : ` ${name(order[0])} matters more than ${name(order[1])} in this ${D.words[0]} with a probability of ${p}.`);
  }
  lines.forEach(([name, value, r], k) => {
    const y = 48 + 28 * k, from = x.at(ends[k + 1]), side = value < 0 ? -1 : 1;
    const to = from + side * Math.max(1, Math.abs(x.at(ends[k]) - from)), neck = to - side * Math.min(6, Math.abs(to - from));
    write(svg, room + 10, y, name, 'end', INK, room + 6);
    el(svg, 'path', { d: `M${from} ${y - 9}L${neck} ${y - 9}L${to} ${y}L${neck} ${y + 9}L${from} ${y + 9}Z`, fill: value < 0 ? 'var(--rz-down)' : 'var(--rz-up)' });
    const [low, high] = whiskers[k].map(x.at);
    if (r !== null) el(svg, 'path', { d: `M${low} ${y}H${high}M${low} ${y - 3.5}v7M${high} ${y - 3.5}v7`, stroke: INK, fill: 'none' });
    write(svg, Math.max(from, to, r === null ? 0 : high) + 6, y, within(value, r), 'start', INK);
  });
}

// Columns: fixed ones, then the data columns of the most important features.
let head = [];
function columns() {
  const order = [];
  const owner = new Map(D.players.map((p, j) => [p.column, j]));
  for (const j of D.ranking[S.output]) if (D.players[j].column !== null) order.push(D.players[j].column);
  D.columns.forEach((_, c) => { if (!owner.has(c)) order.push(c); });
  head = [['row', 'row', (i) => D.rows[i], (i) => String(D.rows[i])]];
  if (D.duels) {
    const one = (key, of) => [key, key, (i) => of(D.duels[i]), (i) => { const v = of(D.duels[i]); return typeof v === 'string' ? v : number(v); }];
    head = [one('left', (d) => d.left), one('right', (d) => d.right)];
    if (D.duels.some((d) => d.chance)) for (const key of ['probability', 'superiority']) head.push(one(key, (d) => d.chance ? d.chance[key] : null));
  }
  const K = D.decisions, P = K && K.probabilities[S.output];
  if (K && K.chosen) head.push(['class', 'class', (i) => K.chosen[i], (i) => K.classes[K.chosen[i]]]);
  if (P) head.push(['probability', `probability of ${K.classes[P.class]}`, (i) => P.of[i], (i) => number(P.of[i])]);
  for (const [key, name] of [['predictions', 'prediction'], ['base', 'base value'], ['residuals', 'residual']])
    head.push([key, name, (i) => D[key][S.output][i], (i) => {
      const v = D[key][S.output][i];
      return key === 'residuals' && v ? v.toExponential(1).replace(/-/g, '−') : number(v);
    }]);
  for (const c of order.slice(0, COLUMNS))
    head.push(['c' + c, D.columns[c].name, (i) => D.columns[c].values[i], (i) => cell(c, i)]);
}
function search() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  S.found = D.rows.map((_, i) => i).filter((i) => {
    const texts = words.length ? head.map((h) => h[3](i).toLowerCase()) : [];
    return words.every((w) => texts.some((t) => t === w || (isNaN(w) && t.includes(w))));
  });
  const key = (head.find((h) => h[0] === S.sort) || ['', '', (i) => D.rows[i]])[2];
  const apart = (a, b) => typeof a === 'string' ? a.localeCompare(b) : a - b;
  S.found.sort((a, b) => apart(key(a), key(b)) * (S.down ? -1 : 1) || a - b);
  S.page = 0;
  table();
}
function table() {
  const t = $('table');
  t.textContent = '';
  const top = t.createTHead().insertRow();
  for (const h of head) {
    const th = document.createElement('th'), b = document.createElement('button');
    th.scope = 'col';
    th.setAttribute('aria-sort', S.sort !== h[0] ? 'none' : S.down ? 'descending' : 'ascending');
    b.type = 'button';
    b.textContent = b.title = h[1];
    if (S.sort === h[0]) b.textContent += S.down ? ' ↓' : ' ↑';
    b.onclick = () => { S.down = S.sort === h[0] && !S.down; S.sort = h[0]; search(); };
    th.append(b);
    top.append(th);
  }
  const body = t.createTBody();
  for (const i of S.found.slice(S.page * PAGE, S.page * PAGE + PAGE)) {
    const r = body.insertRow();
    r.tabIndex = 0;
    r.dataset.i = i;
    r.classList.toggle('chosen', i === S.row);
    for (const h of head) r.insertCell().textContent = h[3](i);
  }
  const last = Math.max(0, Math.ceil(S.found.length / PAGE) - 1);
  $('previous').disabled = S.page === 0;
  $('next').disabled = S.page >= last;
  const more = D.columns.length > COLUMNS ? `, ${COLUMNS} of ${D.columns.length} columns` : '';
  $('count').textContent = `${S.found.length} of ${D.rows.length} ${D.words[1]}${more}`;
}
function pick(row) {
  S.row = +row.dataset.i;
  for (const r of $('table').tBodies[0].rows) r.classList.toggle('chosen', r === row);
  waterfall();
}
function choose(player) {
  S.player = player;
  $('player').value = player;
  dependence();
}

D.players.forEach((p, j) => {
  $('player').add(new Option(p.name, j));
});
$('colour').add(new Option('none', -1));
D.players.forEach((p, j) => { if (p.column !== null) $('colour').add(new Option(p.name, j)); });
for (const e of document.querySelectorAll('.js')) e.hidden = false;
for (const g of document.querySelectorAll('.output [data-player]')) {
  g.setAttribute('tabindex', 0);
  g.setAttribute('role', 'button');
  g.setAttribute('aria-label', `Show the dependence on ${D.players[g.dataset.player].name}`);
  g.closest('svg').setAttribute('role', 'group');
}
const act = (event) => {
  const g = event.target.closest('.output [data-player]'), r = event.target.closest('#table tbody tr');
  if (g) choose(+g.dataset.player);
  if (r) pick(r);
  return g || r;
};
document.addEventListener('click', act);
document.addEventListener('keydown', (e) => {
  if ((e.key === 'Enter' || e.key === ' ') && act(e)) e.preventDefault();
});

// The value under the pointer or the focus.
const tip = $('tip');
function show(text, x, y) {
  tip.hidden = !text;
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 4)) + 'px';
  tip.style.top = Math.min(y + 14, innerHeight - tip.offsetHeight - 4) + 'px';
}
const about = (j, i) => `${D.names[i]}: ${label(j, i)}, ${D.value} ${within(D.values[S.output][j][i], reach(j, i))}`;
document.addEventListener('pointermove', (e) => {
  const dot = e.target.closest && e.target.closest('[data-i]'), g = e.target.closest && e.target.closest('[data-player]');
  let text = '';
  if (dot && dot.tagName === 'circle') text = about(S.player, +dot.dataset.i);
  else if (g && e.target.tagName === 'path') {
    const svg = g.ownerSVGElement, d = svg.dataset, box = svg.getBoundingClientRect();
    const x = (e.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    if (d.lo !== undefined) {
      const v = +d.lo + (x - d.from) / (d.to - d.from) * (d.hi - d.lo), values = D.values[S.output][+g.dataset.player];
      let near = 0;
      values.forEach((w, i) => { if (Math.abs(w - v) < Math.abs(values[near] - v)) near = i; });
      text = about(+g.dataset.player, near);
    }
  }
  show(text, e.clientX, e.clientY);
});

$('player').onchange = (e) => choose(+e.target.value);
$('colour').onchange = (e) => { S.colour = +e.target.value; dependence(); };
$('search').oninput = search;
$('previous').onclick = () => { S.page--; table(); };
$('next').onclick = () => { S.page++; table(); };
if ($('output')) $('output').onchange = (e) => {
  S.output = +e.target.value;
  for (const s of document.querySelectorAll('.output')) s.hidden = +s.dataset.output !== S.output;
  columns(); search(); dependence(); waterfall();
};
const theme = $('theme'), root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
const name = () => { theme.textContent = dark() ? 'Light' : 'Dark'; };
theme.hidden = false;
theme.onclick = () => { root.dataset.theme = dark() ? 'light' : 'dark'; name(); };
name();
let timer;
addEventListener('resize', () => { clearTimeout(timer); timer = setTimeout(() => { dependence(); waterfall(); }, 100); });
columns(); search(); choose(S.player); waterfall();
})();
