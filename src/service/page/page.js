// The live page of turnstile-server. It reads /events, and shows the state. Texts of clients are never parsed as HTML.
'use strict';

const most_rows = 200; // More rows would make the page slow; the filter finds the others.
const most_waits = 3; // Browsers open few connections to one server, and the events need one.
const most_permits = 100;
const seconds_shown = 120;

const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString('en-US');

let semaphores = new Map(); // By name, as in the pages of `snapshot`.
let arriving = null; // The state of a new connection, until its last page.
let opened = null; // The name whose details are shown.
const rows = new Map();

// --- time ------------------------------------------------------------------------------------

function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return ms < 10000 ? `${(ms / 1000).toFixed(1)} s` : `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// Durations that change every second have no fractions.
const age = (ms) => duration(Math.max(0, Math.floor(ms / 1000)) * 1000).replace(/^0 ms$/, '0 s').replace(/\.0 s$/, ' s');

// --- requests --------------------------------------------------------------------------------

let token = sessionStorage.getItem('token') || '';

function request(method, path, body, signal) {
  // The server compares UTF-8. A header of fetch has a character for each byte.
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  const headers = token ? { Authorization: `Bearer ${bytes}` } : {};
  if (body) headers['Content-Type'] = 'application/json';
  return fetch(path, { method, headers, body: body && JSON.stringify(body), signal, cache: 'no-store', redirect: 'manual' });
}

// Requests a change. Returns the answer; or shows a message about the failure, and returns nothing.
async function change(name, method, path, body, signal) {
  try {
    const answer = await request(method, path, body, signal);
    const text = await answer.text();
    if (answer.ok) return text;
    if (answer.status === 401) ask_for_token();
    if (answer.status === 404 || answer.status === 409) forget(body?.permit);
    // Browsers hide an answer that redirects.
    say(answer.status === 0 ? 'that name exists' : text, true, name);
  } catch (error) {
    if (error.name !== 'AbortError') say('no answer from the server', true, name);
  }
  return null;
}

// A name beside other text. Its direction does not affect that text.
const isolated = (name) => Object.assign(document.createElement('bdi'), { textContent: name });

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

function say(text, bad = false, name = '') {
  const line = document.createElement('p');
  if (name) line.append(isolated(shortened(name, 100)), ': ');
  line.append(shortened(text, 300));
  line.classList.toggle('bad', bad);
  $('messages').append(line);
  while ($('messages').childElementCount > 4) $('messages').firstChild.remove();
  setTimeout(() => line.remove(), bad ? 8000 : 4000);
}

function confirmed(title, text, yes) {
  $('confirm-title').replaceChildren(...title);
  $('confirm-text').textContent = text;
  $('confirm-yes').textContent = yes;
  $('confirm').returnValue = 'no';
  $('confirm').showModal();
  return new Promise((resolve) => {
    $('confirm').addEventListener('close', () => resolve($('confirm').returnValue === 'yes'), { once: true });
  });
}

function ask_for_token() {
  if (!$('token-dialog').open) $('token-dialog').showModal();
}

const up = (name, n = 1) => change(name, 'POST', 'semaphore/up', { name, n });

const down = (name) => change(name, 'POST', 'semaphore/down', { name });

async function remove(name) {
  const { waiters = 0, permits = 0 } = semaphores.get(name) || {};
  const text = `Waiters that receive an error: ${number(waiters)}. Permits that end: ${number(permits)}.`;
  if (!(await confirmed(['Delete “', isolated(name), '”?'], text, 'Delete'))) return;
  const old = rows.get(name);
  const neighbour = old && (old.item.nextElementSibling || old.item.previousElementSibling);
  if (await change(name, 'DELETE', `semaphore/${encodeURIComponent(name)}`) === null) return;
  ((neighbour && neighbour.querySelector('.name')) || $('create-name')).focus();
}

async function free(name, permit) {
  const text = 'Its units become available at once. If the holder still works, it is not stopped.';
  if (await confirmed([`Free the permit ${permit.token}?`], text, 'Free')) {
    await change(name, 'POST', 'semaphore/free', { name, token: permit.token });
  }
}

// --- the stream of events --------------------------------------------------------------------

let stream = null; // Aborts the present connection.
let attempts = 0;
let retry_at = 0;
let reconnect_reason = '';
let last_byte = 0;
let fresh_at = null; // When the shown state was up to date.

function show_connection(state) {
  document.body.className = state;
  $('state-text').textContent = { live: 'live', lost: 'not connected', '': 'connecting', paused: 'paused' }[state];
  $('lost').hidden = state !== 'lost';
  document.title = state === 'lost' ? '⚠ Turnstile: not connected' : 'Turnstile';
}

async function connect() {
  if (stream) stream.abort();
  const mine = (stream = new AbortController());
  $('metrics').hidden = token !== ''; // A link cannot send a token.
  retry_at = 0;
  last_byte = performance.now();
  let reason = 'The server has closed the connection.';
  try {
    const answer = await request('GET', 'events', null, mine.signal);
    if (answer.status === 401 || answer.status === 403) {
      ask_for_token();
      reason = 'The server needs another token.';
    } else if (!answer.ok) {
      reason = await answer.text();
    } else {
      await read_events(answer.body.getReader());
    }
  } catch (error) {
    reason = 'The server does not answer.';
  }
  if (stream !== mine) return; // A newer connection has replaced this one.
  arriving = null;
  const delay = Math.min(1000 * 2 ** attempts++, 15000);
  retry_at = performance.now() + delay;
  reconnect_reason = reason;
  show_connection('lost');
  tick();
}

async function read_events(reader) {
  const decoder = new TextDecoder();
  let buffer = '';
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    last_byte = performance.now();
    buffer += decoder.decode(value, { stream: true });
    const frames = buffer.split('\n\n');
    buffer = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(frame.split('\n').map((line) => line.split(/: (.*)/s)));
      if (!fields.event) continue; // A comment does not tell whether the state is known.
      handle(fields.event, JSON.parse(fields.data));
      if (arriving) continue;
      fresh_at = new Date();
      schedule();
    }
  }
}

function handle(kind, data) {
  if (kind === 'snapshot') {
    if (data.first) arriving = new Map();
    for (const one of data.semaphores) arriving.set(one.name, one);
    if (data.last) {
      semaphores = arriving;
      arriving = null;
      attempts = 0;
      stale_details = true;
      show_connection('live');
    }
    return;
  }
  const { name, value, waiters, permits } = data;
  const state = arriving || semaphores;
  if (kind === 'deleted') state.delete(name);
  else state.set(name, { name, value, waiters, permits });
  if (kind === 'granted') count_grant(data.waited_ms);
  if (name === opened) stale_details = true;
}

// If the server's comments are missing, the connection is broken, although it has not ended.
setInterval(() => {
  if (stream && !retry_at && performance.now() - last_byte > 40000) stream.abort();
}, 5000);

// A hidden tab closes its connection, or opens none, because browsers open only a few to one server.
let pause = 0;
function follow_visibility() {
  clearTimeout(pause);
  if (document.hidden) {
    pause = setTimeout(() => {
      if (stream) stream.abort();
      stream = null;
      arriving = null;
      retry_at = 0;
      show_connection('paused');
    }, 60000);
  } else if (!stream || retry_at) {
    connect();
  }
}
document.addEventListener('visibilitychange', follow_visibility);
addEventListener('online', () => {
  if (!document.hidden) connect();
});
$('retry').addEventListener('click', connect);

// --- charts ----------------------------------------------------------------------------------

// The last two minutes, one element for each second, the present one last.
const grants = new Array(seconds_shown).fill(0);
const waits = new Array(seconds_shown).fill(0);
let chart_second = Math.floor(Date.now() / 1000);

function advance_charts() {
  const now = Math.floor(Date.now() / 1000);
  for (let missed = Math.min(now - chart_second, seconds_shown); missed > 0; --missed) {
    grants.push(0);
    waits.push(0);
    grants.shift();
    waits.shift();
  }
  chart_second = now;
}

function count_grant(waited) {
  advance_charts();
  ++grants[seconds_shown - 1];
  waits[seconds_shown - 1] = Math.max(waits[seconds_shown - 1], waited);
}

function draw(svg, values, to_text) {
  const most = Math.max(...values, 1);
  const width = 240 / seconds_shown;
  const bars = values.flatMap((value, i) => {
    if (value === 0) return [];
    const bar = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    const height = Math.max(1.5, (54 * value) / most);
    for (const [name, set] of Object.entries({ x: i * width, y: 56 - height, width: width * 0.8, height })) {
      bar.setAttribute(name, set);
    }
    return [bar];
  });
  svg.replaceChildren(...bars);
  const peak = Math.max(...values) === 0 ? 'none' : `peak ${to_text(most)}`;
  $(`${svg.id}-peak`).textContent = peak;
  svg.setAttribute('aria-label', `${svg.parentElement.querySelector('figcaption span').textContent}, last two minutes: ${peak}`);
}

function draw_charts() {
  advance_charts();
  // The present second is incomplete.
  const last = grants[seconds_shown - 2];
  $('grants-now').textContent = number(last);
  draw($('grants'), grants, (n) => `${number(n)}/s`);
  const recent = waits.slice(-10).filter((ms) => ms > 0);
  $('waits-now').textContent = recent.length ? duration(Math.max(...recent)) : '–';
  draw($('waits'), waits, duration);
}

// --- the list --------------------------------------------------------------------------------

let scheduled = false;

// Shows the state soon, and not more often than ten times per second.
function schedule() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    show();
  }, 100);
}

function set_text(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function new_row(name) {
  const item = $('row').content.firstElementChild.cloneNode(true);
  const part = (selector) => item.querySelector(selector);
  part('bdi').textContent = name;
  part('.name').title = name;
  part('.name').addEventListener('click', () => open_details(opened === name ? null : name));
  part('.up').addEventListener('click', () => up(name));
  part('.down').addEventListener('click', () => down(name));
  part('.up').setAttribute('aria-label', `Up ${name}`);
  part('.down').setAttribute('aria-label', `Down ${name}`);
  item.addEventListener('keydown', (key) => {
    // With these keys, browsers zoom.
    if (key.ctrlKey || key.metaKey || key.altKey || key.target.closest('input')) return;
    const action = { '+': () => up(name), '-': () => down(name), Delete: () => remove(name) }[key.key];
    if (!action) return;
    key.preventDefault();
    action();
  });
  return {
    item,
    value: part('.value b'),
    permits: part('.permits'),
    waiters: part('.waiters'),
    shown: null,
  };
}

// Removes a part of a row. If it has the focus, the row's name receives it, so that the keys of the row go on working.
function remove_part(part) {
  const row = part.contains(document.activeElement) && part.closest('.row');
  part.remove();
  if (row) row.querySelector('.name').focus();
}

function show_count(element, count, one, many) {
  set_text(element.querySelector('b'), number(count));
  set_text(element.querySelector('span'), count === 1 ? one : many);
  element.classList.toggle('nothing', count === 0);
}

function update_row(row, state) {
  if (row.shown === state) return;
  row.shown = state;
  set_text(row.value, number(state.value));
  row.item.classList.toggle('zero', state.value === 0);
  show_count(row.permits, state.permits, 'permit', 'permits');
  show_count(row.waiters, state.waiters, 'waiter', 'waiters');
}

function chosen() {
  const text = $('filter').value.toLowerCase();
  const found = [...semaphores.values()].filter((one) => one.name.toLowerCase().includes(text));
  const by_name = (a, b) => (a.name < b.name ? -1 : 1);
  const by_waiters = (a, b) => b.waiters - a.waiters || by_name(a, b);
  return found.sort($('order').value === 'waiters' ? by_waiters : by_name);
}

function show() {
  const list = $('list');
  const all = chosen();
  const visible = all.slice(0, most_rows);
  const names = new Set(visible.map((one) => one.name));
  for (const [name, row] of rows) {
    if (names.has(name)) continue;
    row.item.remove();
    rows.delete(name);
  }
  let place = list.firstElementChild;
  for (const one of visible) {
    if (!rows.has(one.name)) rows.set(one.name, new_row(one.name));
    const row = rows.get(one.name);
    update_row(row, one);
    if (row.item === place) {
      place = place.nextElementSibling;
    } else {
      const focused = row.item.contains(document.activeElement) ? document.activeElement : null;
      list.insertBefore(row.item, place);
      if (focused) focused.focus();
    }
  }
  if (opened !== null && !semaphores.has(opened)) open_details(null);
  else show_details();

  let waiters = 0;
  let permits = 0;
  for (const one of semaphores.values()) {
    waiters += one.waiters;
    permits += one.permits;
  }
  $('total-semaphores').textContent = number(semaphores.size);
  $('total-waiters').textContent = number(waiters);
  $('total-permits').textContent = number(permits);
  $('more').hidden = all.length <= most_rows;
  $('more').textContent = `${number(all.length - most_rows)} more. Use the filter to find them.`;
  show_emptiness(all.length === 0);
}

function show_emptiness(empty) {
  $('empty').hidden = !empty || fresh_at === null;
  if (semaphores.size !== 0) {
    $('empty').textContent = 'No name contains that text.';
    return;
  }
  const example = document.createElement('code');
  example.textContent = `curl -d 'name=printer&value=2' ${location.origin}/semaphore`;
  $('empty').replaceChildren('No semaphores yet. Create one above, or with ', document.createElement('br'), example);
}

// --- the details of one semaphore -------------------------------------------------------------

let details = null; // { element, tried, data, asked, holders }
let stale_details = false;
let loading = false;
const pending = new Set(); // The waits of this page.
const kept = new Map(); // The permits of this page, by their ids.

function open_details(name) {
  if (details) details.element.remove();
  details = null;
  for (const row of rows.values()) {
    row.item.classList.remove('open');
    row.item.querySelector('.name').setAttribute('aria-expanded', 'false');
  }
  opened = name;
  stale_details = true;
  show_details();
}

function new_details(name) {
  const element = $('details').content.firstElementChild.cloneNode(true);
  const form = element.querySelector('form');
  element.querySelector('.delete').addEventListener('click', () => remove(name));
  form.addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    const { n, wait, lease } = form.elements;
    if (submitted.submitter?.value === 'up') up(name, Number(n.value));
    else down_with(name, Number(n.value), Number(wait.value), Number(lease.value));
  });
  return { element, tried: 0, data: null, asked: 0, holders: new Map() };
}

// A `down` with all its options. The page shows its wait, and can cancel it.
async function down_with(name, n, wait, lease) {
  if (wait > 0 && pending.size >= most_waits) {
    say(`This page waits for at most ${most_waits} grants at a time.`, true);
    return;
  }
  if (lease > 0 && kept.size >= most_permits) {
    say(`This page keeps at most ${most_permits} permits. Release one first.`, true);
    return;
  }
  const body = { name, n };
  if (wait > 0) body.wait = wait;
  if (lease > 0) body.lease = lease;
  const mine = new_wait(name, n);
  if (wait > 0) pending.add(mine);
  show_own();
  const text = await change(name, 'POST', 'semaphore/down', body, mine.abort.signal);
  pending.delete(mine);
  remove_part(mine.item);
  if (text === null) return;
  say('granted', false, name);
  if (lease > 0) keep_permit(name, n, lease, JSON.parse(text));
}

// A line for a wait or a permit, with buttons.
function new_line(kind, about, actions) {
  const item = Object.assign(document.createElement('li'), { className: kind });
  item.append(document.createElement('bdi'));
  for (const [label, action] of Object.entries(actions)) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: label });
    button.setAttribute('aria-label', label + about);
    button.addEventListener('click', action);
    item.append(button);
  }
  return item;
}

function new_wait(name, n) {
  const abort = new AbortController();
  const since = performance.now();
  const text = () => `This page has waited ${age(performance.now() - since)} for ${units(n)}.`;
  return { name, text, abort, item: new_line('wait', '', { 'Stop waiting': () => abort.abort() }) };
}

// Only the id of a permit renews and releases it, and the server sends the id only once.
function keep_permit(name, n, lease, granted) {
  const { permit } = granted;
  const since = performance.now();
  let ends = since + 1000 * lease;
  const rest = () => ends - performance.now();
  const text = () => `This page holds ${units(n)}, lease ends in ${age(rest())}.`;
  const renew = async () => {
    if (await change(name, 'POST', 'semaphore/renew', { name, permit }) === null) return;
    ends = performance.now() + 1000 * lease;
    kept.set(permit, mine); // The former lease may have ended before the answer arrived.
    show_own();
  };
  const release = async () => {
    if (await change(name, 'POST', 'semaphore/up', { name, permit }) !== null) forget(permit);
  };
  const item = new_line('permit', ` permit ${granted.token}`, { Renew: renew, Release: release });
  const mine = { name, text, token: granted.token, since, rest, item };
  kept.set(permit, mine);
  show_own();
}

function forget(permit) {
  if (kept.has(permit)) remove_part(kept.get(permit).item);
  kept.delete(permit);
}

// Whether the details show that a permit has ended. They may be older than the permit, and they may be incomplete.
function is_missing({ name, token, since }) {
  if (!details?.data || details.data.name !== name || details.asked < since) return false;
  const { holding, permits } = details.data;
  return holding.length === permits && !holding.some((held) => held.token === token);
}

// Shows the waits and permits of this page, and forgets the permits that have ended.
function show_own() {
  for (const [permit, mine] of kept) {
    if (mine.rest() <= 0 || !semaphores.has(mine.name) || is_missing(mine)) forget(permit);
  }
  if (!details) return;
  const list = details.element.querySelector('.own');
  for (const mine of [...pending, ...kept.values()]) {
    if (mine.name !== opened) continue;
    if (mine.item.parentElement !== list) list.append(mine.item);
    set_text(mine.item.firstChild, mine.text());
  }
}

const units = (n) => `${number(n)} ${n === 1 ? 'unit' : 'units'}`;

function show_details() {
  const row = opened === null ? null : rows.get(opened);
  if (!row) return;
  if (!details) details = new_details(opened);
  if (details.element.parentElement !== row.item) {
    row.item.append(details.element);
    row.item.classList.add('open');
    row.item.querySelector('.name').setAttribute('aria-expanded', 'true');
    show_own();
  }
  if (stale_details && !loading) load_details();
}

async function load_details() {
  const name = opened;
  const asked = performance.now();
  details.tried = asked;
  loading = true;
  stale_details = false;
  try {
    // Without a limit, a connection that breaks without a trace would keep the page from loading any details.
    const limit = AbortSignal.timeout(10000);
    const answer = await request('GET', `semaphore/detail/${encodeURIComponent(name)}`, null, limit);
    if (answer.ok && name === opened && details) {
      details.data = await answer.json();
      details.asked = asked;
      show_participants();
      show_own();
    }
  } catch (error) {
    // The clock tries it again.
  }
  // Many changes in a short time need few requests.
  setTimeout(() => {
    loading = false;
    if (stale_details && document.body.className === 'live') show_details();
  }, 150);
}

function new_holder(name, permit) {
  const item = new_line('permit', ` permit ${permit.token}`, { Free: () => free(name, permit) });
  const lease = Object.assign(document.createElement('span'), { className: 'lease' });
  lease.append(document.createElement('i'));
  item.firstChild.after(lease);
  return item;
}

function show_participants() {
  const { element, data, asked, holders: items } = details;
  const passed = performance.now() - asked;

  const holders = element.querySelector('.holders');
  const tokens = new Set(data.holding.map((permit) => permit.token));
  for (const [held, item] of items) {
    if (tokens.has(held)) continue;
    remove_part(item);
    items.delete(held);
  }
  for (const permit of data.holding) {
    if (!items.has(permit.token)) {
      items.set(permit.token, new_holder(data.name, permit));
      holders.append(items.get(permit.token));
    }
    const item = items.get(permit.token);
    const rest = Math.max(0, permit.rest_ms - passed);
    set_text(item.firstChild, `${permit.client || 'unknown since a restart'}: ${units(permit.n)} for ${age(permit.age_ms + passed)}, lease ends in ${age(rest)}`);
    item.title = `Fencing token ${permit.token}, lease ${duration(permit.lease_ms)}`;
    const part = permit.lease_ms ? rest / permit.lease_ms : 0;
    const bar = item.querySelector('.lease');
    bar.classList.toggle('late', part < 0.25);
    bar.firstChild.style.width = `${Math.min(100, 100 * part)}%`;
  }

  const queue = element.querySelector('.queue');
  while (queue.childElementCount > data.waiting.length) queue.lastElementChild.remove();
  while (queue.childElementCount < data.waiting.length) {
    const item = document.createElement('li');
    for (const kind of ['place', 'wanted', 'age']) item.append(Object.assign(document.createElement('span'), { className: kind }));
    queue.append(item);
  }
  data.waiting.forEach((waiter, i) => {
    const [place, wanted, waits_for] = queue.children[i].children;
    set_text(place, `${i + 1}.`);
    set_text(wanted, `${waiter.client}: ${units(waiter.n)}`);
    set_text(waits_for, `waits for ${age(waiter.age_ms + passed)}`);
  });

  show_rest(holders, data.holding.length, data.permits, 'No permits. A down without a lease leaves none.');
  show_rest(queue, data.waiting.length, data.waiters, 'Nobody waits.');
}

// The line below a list, for the entries that the server's answer leaves out.
function show_rest(list, shown, all, none) {
  const line = list.nextElementSibling;
  line.hidden = shown === all && all !== 0;
  set_text(line, all === 0 ? none : `and ${number(all - shown)} more`);
}

// --- input -----------------------------------------------------------------------------------

$('create').addEventListener('submit', async (submitted) => {
  submitted.preventDefault();
  const name = $('create-name').value;
  if (await change(name, 'POST', 'semaphore', { name, value: $('create-value').value }) === null) return;
  $('create-name').value = '';
  $('create-value').value = '1';
  $('create-name').focus();
});
$('choose').addEventListener('submit', (submitted) => submitted.preventDefault());
$('filter').addEventListener('input', show);
$('order').addEventListener('change', show);

$('token-form').addEventListener('submit', () => {
  token = $('token').value.trim();
  sessionStorage.setItem('token', token);
  $('token').value = '';
  connect();
});
$('token-change').addEventListener('click', ask_for_token);

document.addEventListener('keydown', (key) => {
  if (document.querySelector('dialog[open]') || key.ctrlKey || key.metaKey || key.altKey) return;
  const typing = key.target.closest('input, select');
  if (key.key === 'Escape') {
    if (typing && typing.type === 'search') {
      typing.value = '';
      show();
    }
    if (opened !== null) {
      const row = rows.get(opened);
      open_details(null);
      if (row) row.item.querySelector('.name').focus();
    }
    return;
  }
  if (typing && !(typing.id === 'filter' && key.key === 'ArrowDown')) return;
  if (key.key === '/') {
    key.preventDefault();
    $('filter').focus();
  }
  if (key.key === 'ArrowDown' || key.key === 'ArrowUp') {
    const names = [...$('list').querySelectorAll('.name')];
    const row = key.target.closest('.row');
    const at = row ? names.indexOf(row.querySelector('.name')) : key.key === 'ArrowDown' ? -1 : names.length;
    const next = names[at + (key.key === 'ArrowDown' ? 1 : -1)];
    if (!next) return;
    key.preventDefault();
    next.focus();
  }
});

// --- the clock -------------------------------------------------------------------------------

function tick() {
  if (!document.body.classList.contains('lost')) return;
  const rest = Math.max(0, Math.ceil((retry_at - performance.now()) / 1000));
  const state = fresh_at ? ` This is the state of ${fresh_at.toLocaleTimeString()}.` : '';
  // A screen reader reads the reason, which is an alert, again when it changes.
  set_text($('lost-text'), reconnect_reason + state);
  set_text($('lost-retry'), retry_at ? `Next attempt in ${rest} s.` : 'Connecting…');
  if (retry_at && performance.now() >= retry_at && !$('token-dialog').open) connect();
}

setInterval(() => {
  tick();
  if (document.body.className !== 'live') return;
  draw_charts();
  if (details) {
    if (details.data) show_participants();
    // Over Redis, no event reports a renewal by another server, or a permit that passed to a waiter there.
    if (performance.now() - details.tried > 5000) stale_details = true;
    show_details();
  }
  show_own();
}, 1000);

show_connection('');
draw_charts();
follow_visibility();
