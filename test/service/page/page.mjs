// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the live page of turnstile-server in Chromium.
//
//   node page.mjs SERVER MODULES [SCREENSHOTS]
//
// MODULES is a folder with the module playwright-core. SCREENSHOTS is a folder that receives pictures of the page.

import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';

const [program, modules, screenshots] = process.argv.slice(2);
const {chromium} = createRequire(path.resolve(modules) + '/')('playwright-core');

const children = new Set();
process.on('exit', () => children.forEach(child => child.kill('SIGKILL')));

// Starts a server, and returns it with its address. A port of 0 is a free one.
async function start(port = 0, environment = {}) {
  const child = spawn(program, ['--port', String(port)],
    {stdio: ['ignore', 'pipe', 'inherit'], env: {...process.env, ...environment}});
  children.add(child);
  const line = await new Promise((resolve, reject) => {
    child.stdout.once('data', data => resolve(String(data)));
    child.once('exit', status => reject(new Error('the server ends with ' + status)));
  });
  const url = line.match(/http:\S+/)[0];
  return {
    url,
    ask(method, target, body) {
      const answer = fetch(url + target,
        {method, body: body && JSON.stringify(body), headers: body ? {'Content-Type': 'application/json'} : {}});
      // A failed test does not wait for all its answers.
      answer.catch(() => {});
      return answer;
    },
    async end() {
      if (!children.delete(child)) return;
      const ended = new Promise(resolve => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    },
  };
}

// The system gives higher ports to outgoing connections. One of them could take the port of a server that is restarting.
// Browsers refuse port 10080.
async function free_port() {
  for (;;) {
    const listener = createServer().listen(11000 + Math.floor(Math.random() * 21768), '127.0.0.1');
    try {
      await once(listener, 'listening');
      return listener.address().port;
    } catch (error) {
      assert.equal(error.code, 'EADDRINUSE');
    } finally {
      listener.close();
    }
  }
}

// Starts a Redis server. Debian's redis-check-rdb is the server if it is called redis-server.
async function start_redis() {
  const folder = mkdtempSync(path.join(tmpdir(), 'page-'));
  process.on('exit', () => rmSync(folder, {recursive: true}));
  const socket = path.join(folder, 'redis.sock');
  const child = spawn('redis-check-rdb', ['--port', '0', '--unixsocket', socket, '--save', ''],
    {argv0: 'redis-server', stdio: ['ignore', 'pipe', 'inherit']});
  children.add(child);
  for await (const text of child.stdout.iterator({destroyOnReturn: false}))
    if (/ready to accept connections/i.test(text)) break;
  child.stdout.resume();
  return {
    url: 'unix://' + socket,
    async end() {
      children.delete(child);
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // The sandbox does not work for root. The browser cannot resolve any other host.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
});

const exactly = text => new RegExp('^' + text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') + '$');
const row = (page, name) =>
  page.locator('#list > li').filter({has: page.locator('.name bdi').filter({hasText: exactly(name)})});

// Waits until an element has a text.
const shows = (locator, text) =>
  locator.filter({hasText: typeof text === 'string' ? exactly(text) : text}).waitFor();
const value = (page, name, text) => shows(row(page, name).locator('.value b'), text);
const permits = (page, name, text) => shows(row(page, name).locator('.permits b'), text);
const waiters = (page, name, text) => shows(row(page, name).locator('.waiters b'), text);

const open = (page, name) => row(page, name).locator('.name').click();
// The permits that the page keeps for a semaphore.
const own = (page, name) => row(page, name).locator('.own .permit');

// Acquires a unit by the form below a semaphore.
async function take(page, name, lease) {
  const form = row(page, name).locator('form');
  if (!(await form.isVisible())) await open(page, name);
  await form.getByRole('spinbutton', {name: 'Lease'}).fill(String(lease));
  await form.getByRole('button', {name: 'Down'}).click();
}

// Clicks a button of a permit or a wait of this page. The lists of all permits and waits stand above it, so it moves when
// their first element is shown.
async function press(page, name, button) {
  await row(page, name).locator('.holders li, .queue li').first().waitFor();
  await row(page, name).getByRole('button', {name: button}).click();
}

const confirm = page => page.locator('#confirm-yes').click();
const live = page => page.locator('body.live').waitFor();
const lost = page => page.locator('body.lost').waitFor();

const tests = {
  async a_semaphore_is_created_taken_released_and_deleted({page, server}) {
    await page.getByLabel('Name', {exact: true}).fill('printer');
    await page.getByLabel('Value').fill('2');
    await page.getByRole('button', {name: 'Create'}).click();
    await value(page, 'printer', '2');
    await page.getByRole('button', {name: 'Down printer'}).click();
    await value(page, 'printer', '1');
    await page.getByRole('button', {name: 'Up printer'}).click();
    await value(page, 'printer', '2');
    assert.equal((await (await server.ask('GET', '/semaphore/value/printer')).json()).value, 2);
    await open(page, 'printer');
    await row(page, 'printer').getByRole('button', {name: 'Delete'}).click();
    await confirm(page);
    await row(page, 'printer').waitFor({state: 'detached'});
    assert.equal((await server.ask('GET', '/semaphore/value/printer')).status, 404);
  },

  async changes_by_others_are_shown({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'door', value: 1});
    await value(page, 'door', '1');
    await server.ask('POST', '/semaphore/down', {name: 'door'});
    await value(page, 'door', '0');
    await server.ask('DELETE', '/semaphore/door');
    await row(page, 'door').waitFor({state: 'detached'});
  },

  async waiters_are_shown_in_order_and_granted({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'desk', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'desk'});
    await open(page, 'desk');
    await shows(row(page, 'desk').locator('.queue + p'), 'Nobody waits.');
    const first = server.ask('POST', '/semaphore/down', {name: 'desk', wait: 600, lease: 600});
    await waiters(page, 'desk', '1');
    const second = server.ask('POST', '/semaphore/down', {name: 'desk', wait: 600, n: 2});
    await waiters(page, 'desk', '2');
    await shows(row(page, 'desk').locator('.queue li').nth(0), /^1\.127\.0\.0\.1: 1 unitwaits for/);
    await shows(row(page, 'desk').locator('.queue li').nth(1), /^2\.127\.0\.0\.1: 2 unitswaits for/);
    await page.getByRole('button', {name: 'Up desk'}).click();
    assert.equal((await first).status, 200);
    await permits(page, 'desk', '1');
    await waiters(page, 'desk', '1');
    await shows(row(page, 'desk').locator('.holders li'), /^127\.0\.0\.1: 1 unit for .*, lease ends in 9 min/);
    await shows(row(page, 'desk').locator('.queue li').nth(0), /^1\.127\.0\.0\.1: 2 units/);
    await server.ask('DELETE', '/semaphore/desk');
    assert.equal((await second).status, 404);
  },

  async grants_are_counted_in_the_charts({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'ticket', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'ticket'});
    const waiting = server.ask('POST', '/semaphore/down', {name: 'ticket', wait: 600});
    await waiters(page, 'ticket', '1');
    await server.ask('POST', '/semaphore/up', {name: 'ticket'});
    assert.equal((await waiting).status, 200);
    await page.locator('#grants rect').first().waitFor({state: 'attached'});
    await page.locator('#waits rect').first().waitFor({state: 'attached'});
    await shows(page.locator('#grants-peak'), /^peak [12]\/s$/);
  },

  async the_page_waits_and_gives_up({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'room', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'room'});
    await open(page, 'room');
    const form = row(page, 'room').locator('form');
    await form.getByLabel('Wait').fill('600');
    await form.getByLabel('Lease').fill('600');
    await form.getByRole('button', {name: 'Down'}).click();
    await waiters(page, 'room', '1');
    await press(page, 'room', 'Stop waiting');
    await waiters(page, 'room', '0');
    await form.getByRole('button', {name: 'Down'}).click();
    await waiters(page, 'room', '1');
    // The message is removed after a few seconds.
    const message = shows(page.locator('#messages p'), 'room: granted');
    await server.ask('POST', '/semaphore/up', {name: 'room'});
    await message;
    await permits(page, 'room', '1');
    await own(page, 'room').waitFor();
  },

  async up_adds_units_and_a_permit_of_the_page_is_released({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'hoist', value: 1});
    await server.ask('POST', '/semaphore', {name: 'other', value: 1});
    const [down] = await Promise.all([page.waitForResponse('**/semaphore/down'), take(page, 'hoist', 600)]);
    const {permit} = await down.json();
    await shows(own(page, 'hoist'), /^This page holds 1 unit, lease ends in 9 min/);
    await row(page, 'hoist').getByRole('button', {name: 'Up: add'}).click();
    await value(page, 'hoist', '1');
    await permits(page, 'hoist', '1');
    // The details of another semaphore do not show the permit. It is not forgotten.
    await open(page, 'other');
    await row(page, 'other').locator('form').waitFor();
    assert.equal(await own(page, 'other').count(), 0);
    await open(page, 'hoist');
    // The buttons move when the holders appear above them.
    await row(page, 'hoist').locator('.holders .permit').waitFor();
    await row(page, 'hoist').getByRole('button', {name: /^Release permit \d+$/}).click();
    await own(page, 'hoist').waitFor({state: 'detached'});
    await value(page, 'hoist', '2');
    await permits(page, 'hoist', '0');
    assert.equal((await server.ask('POST', '/semaphore/up', {name: 'hoist', permit})).status, 409);
  },

  async a_permit_of_the_page_is_renewed_and_expires({page, server}) {
    // The page's clock jumps. The server's clock does not, so the permit does not expire there.
    await page.clock.install();
    await page.reload();
    await server.ask('POST', '/semaphore', {name: 'winch', value: 1});
    await take(page, 'winch', 600);
    await own(page, 'winch').waitFor();
    await page.clock.fastForward(400_000);
    await shows(own(page, 'winch'), /ends in [0-3] min/);
    await row(page, 'winch').getByRole('button', {name: /^Renew permit \d+$/}).click();
    await shows(own(page, 'winch'), /ends in 9 min/);
    // The answer to a renewal may arrive after the end of the former lease.
    const held_back = new Promise(resolve => page.route('**/semaphore/renew', resolve));
    await press(page, 'winch', 'Renew');
    const request = await held_back;
    await page.clock.fastForward(600_000);
    await own(page, 'winch').waitFor({state: 'detached'});
    await request.continue();
    await shows(own(page, 'winch'), /ends in 9 min/);
    await page.clock.fastForward(600_000);
    await own(page, 'winch').waitFor({state: 'detached'});
  },

  async a_token_without_admin_permission_renews_and_releases({page}) {
    const server = await start(0, {TURNSTILE_ADMIN_TOKEN: 'admin', TURNSTILE_USE_TOKEN: 'use'});
    await page.goto(server.url);
    const use_token = async token => {
      await page.locator('#token').fill(token);
      await page.getByRole('button', {name: 'Connect'}).click();
      await live(page);
    };
    await use_token('admin');
    await page.getByLabel('Name', {exact: true}).fill('lift');
    await page.getByRole('button', {name: 'Create'}).click();
    await value(page, 'lift', '1');
    await page.getByRole('button', {name: 'Token'}).click();
    await use_token('use');
    await take(page, 'lift', 600);
    const [renewed] = await Promise.all([
      page.waitForResponse('**/semaphore/renew'),
      press(page, 'lift', 'Renew'),
    ]);
    assert.equal(renewed.status(), 200);
    await press(page, 'lift', 'Release');
    await permits(page, 'lift', '0');
    await value(page, 'lift', '1');
    await server.end();
  },

  async a_permit_of_the_page_that_has_ended_is_forgotten({page, server}) {
    const free_first = async () => {
      const {holding} = await (await server.ask('GET', '/semaphore/detail/ramp')).json();
      assert.equal((await server.ask('POST', '/semaphore/free', {name: 'ramp', token: holding[0].token})).status, 200);
    };
    await server.ask('POST', '/semaphore', {name: 'ramp', value: 1});
    await take(page, 'ramp', 600);
    await own(page, 'ramp').waitFor();
    await free_first();
    await own(page, 'ramp').waitFor({state: 'detached'});
    await take(page, 'ramp', 600);
    await own(page, 'ramp').waitFor();
    await page.route('**/semaphore/detail/*', route => route.abort());
    await free_first();
    await value(page, 'ramp', '1');
    await row(page, 'ramp').getByRole('button', {name: 'Release'}).click();
    await shows(page.locator('#messages p'), /^ramp: permit is not held/);
    await own(page, 'ramp').waitFor({state: 'detached'});
    await value(page, 'ramp', '1');
    // A semaphore that is created again has none of the permits.
    await take(page, 'ramp', 600);
    await own(page, 'ramp').waitFor();
    await server.ask('DELETE', '/semaphore/ramp');
    await row(page, 'ramp').waitFor({state: 'detached'});
    await page.unroute('**/semaphore/detail/*');
    await server.ask('POST', '/semaphore', {name: 'ramp', value: 1});
    await open(page, 'ramp');
    await row(page, 'ramp').locator('form').waitFor();
    await own(page, 'ramp').waitFor({state: 'detached'});
  },

  async the_page_keeps_a_limited_number_of_permits({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'shelf', value: 1000});
    await take(page, 'shelf', 600);
    await row(page, 'shelf').locator('form').evaluate(form => {
      for (let i = 1; i < 100; ++i) form.requestSubmit(form.querySelector('.primary'));
    });
    await own(page, 'shelf').nth(99).waitFor();
    await take(page, 'shelf', 600);
    await shows(page.locator('#messages p'), 'This page keeps at most 100 permits. Release one first.');
    await value(page, 'shelf', '900');
    // The permits of a deleted semaphore do not count, once the page has forgotten them.
    await server.ask('DELETE', '/semaphore/shelf');
    await server.ask('POST', '/semaphore', {name: 'rack', value: 1});
    while (await own(page, 'rack').count() === 0) await take(page, 'rack', 600);
  },

  async a_stuck_permit_is_freed({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'crane', value: 1});
    const {permit} = await (await server.ask('POST', '/semaphore/down', {name: 'crane', lease: 600})).json();
    await permits(page, 'crane', '1');
    await open(page, 'crane');
    await page.getByRole('button', {name: /^Free permit \d+$/}).click();
    await confirm(page);
    await value(page, 'crane', '1');
    await permits(page, 'crane', '0');
    assert.equal((await server.ask('POST', '/semaphore/up', {name: 'crane', permit})).status, 409);
  },

  async details_are_read_again_after_a_failure({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'kiln', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'kiln', lease: 600});
    await permits(page, 'kiln', '1');
    // A refusal, a broken connection, and one that breaks without a trace.
    for (const fail of [route => route.fulfill({status: 503}), route => route.abort(), () => {}]) {
      const failed = new Promise(resolve =>
        page.route('**/semaphore/detail/*', async route => resolve(await fail(route))));
      await open(page, 'kiln');
      await failed;
      // Unread details do not claim that there is nobody.
      assert.equal(await row(page, 'kiln').locator('.none').filter({visible: true}).count(), 0);
      await page.unroute('**/semaphore/detail/*');
      await row(page, 'kiln').locator('.holders li').waitFor();
      await shows(row(page, 'kiln').locator('.queue + p'), 'Nobody waits.');
      await open(page, 'kiln');
    }
  },

  async a_tab_in_the_background_is_not_connected({page}) {
    const set_hidden = hidden => Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    await page.addInitScript(set_hidden, true);
    await page.clock.install();
    let connections = 0;
    page.on('request', request => connections += request.url().endsWith('/events'));
    await page.reload();
    await page.clock.fastForward(61_000);
    await page.locator('body.paused').waitFor();
    await page.evaluate(async () => {
      dispatchEvent(new Event('online'));
      await fetch('healthz');
    });
    assert.equal(connections, 0);
    await page.evaluate(set_hidden, false);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await live(page);
    await page.evaluate(set_hidden, true);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.clock.fastForward(61_000);
    await page.locator('body.paused').waitFor();
  },

  async a_refusal_is_shown({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'busy', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'busy'});
    await value(page, 'busy', '0');
    await page.getByRole('button', {name: 'Down busy'}).click();
    await shows(page.locator('#messages p'), 'busy: Semaphore locked');
  },

  async a_proxy_that_changes_the_host_is_named({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'door', value: 1});
    await value(page, 'door', '1');
    await page.route('**/semaphore/down', route =>
      route.continue({headers: {...route.request().headers(), origin: 'http://elsewhere'}}));
    await page.getByRole('button', {name: 'Down door'}).click();
    await shows(page.locator('#messages p'), 'door: a page of another origin must not change anything');
  },

  async names_with_markup_are_text({page, server}) {
    const name = '<img src=x onerror="window.attacked=1"> & "\u{1F600}"/%2F';
    await server.ask('POST', '/semaphore', {name, value: 3});
    await value(page, name, '3');
    await page.getByRole('button', {name: 'Up ' + name}).click();
    await value(page, name, '4');
    await server.ask('POST', '/semaphore/down', {name, lease: 600});
    await open(page, name);
    await row(page, name).locator('.holders li').waitFor();
    await row(page, name).getByRole('button', {name: 'Delete'}).click();
    await shows(page.locator('#confirm-title'), `Delete “${name}”?`);
    assert.equal(await page.locator('main img, dialog img').count(), 0);
    assert.equal(await page.evaluate('window.attacked'), undefined);
    await confirm(page);
    await row(page, name).waitFor({state: 'detached'});
  },

  async names_affect_no_text_beside_them({page, server}) {
    // From this character on, text runs from right to left.
    const name = '\u202e' + 'x'.repeat(400);
    await server.ask('POST', '/semaphore', {name, value: 1});
    await server.ask('POST', '/semaphore/down', {name});
    await value(page, name, '0');
    await page.getByRole('button', {name: 'Down ' + name}).click();
    await shows(page.locator('#messages p'), /: Semaphore locked$/);
    await page.locator('#messages bdi').waitFor();
    await open(page, name);
    await row(page, name).getByRole('button', {name: 'Delete'}).click();
    await shows(page.locator('#confirm-title bdi'), name);
  },

  async a_filter_finds_a_name({page, server}) {
    for (const name of ['red apple', 'green apple', 'plum']) await server.ask('POST', '/semaphore', {name, value: 1});
    await row(page, 'plum').waitFor();
    await page.getByLabel('Filter').fill('APPLE');
    await row(page, 'plum').waitFor({state: 'detached'});
    await row(page, 'red apple').waitFor();
    assert.equal(await page.locator('#list > li').count(), 2);
  },

  async a_lost_connection_is_shown_and_recovered({page}) {
    const port = await free_port();
    const server = await start(port);
    await page.goto(server.url);
    await server.ask('POST', '/semaphore', {name: 'before', value: 1});
    await row(page, 'before').waitFor();
    await server.end();
    await lost(page);
    await shows(page.locator('#lost-text'), /^The server does not answer. This is the state of /);
    // A screen reader reads an alert again when it changes. Only the time of the next attempt changes.
    const alerts = await page.evaluate(() => new Promise(resolve => {
      const alert = document.querySelector('[role=alert]');
      const changes = [];
      new MutationObserver(more => {
        changes.push(...more);
        if (changes.length > 3) resolve(changes.filter(one => alert.contains(one.target)).length);
      }).observe(document.getElementById('lost'), {subtree: true, childList: true});
    }));
    assert.equal(alerts, 0);
    const next = await start(port);
    await live(page);
    await row(page, 'before').waitFor({state: 'detached'});
    await next.ask('POST', '/semaphore', {name: 'after', value: 1});
    await row(page, 'after').waitFor();
    await next.end();
  },

  async the_keyboard_is_enough({page, server}) {
    const press = async (...keys) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    // The first stop is the link to the list.
    await press('Tab', 'Tab');
    await page.keyboard.type('keys');
    await press('Tab', 'ArrowUp', 'Enter');
    await value(page, 'keys', '2');
    // After a creation, the focus returns to the name. There, the slash is a letter and no command.
    await page.locator('#create-name:focus').waitFor();
    await press('Tab', 'Tab', '/');
    await page.keyboard.type('ke');
    await press('ArrowDown', '+');
    await value(page, 'keys', '3');
    // With these, a browser zooms. The last key shows that they changed nothing.
    await press('Control+-', 'Control+Shift++', 'Alt+-', 'Meta+-', 'Control+Delete', '-');
    await value(page, 'keys', '2');
    await press('Enter');
    await row(page, 'keys').getByRole('button', {name: 'Delete'}).waitFor();
    await press('Escape', 'Delete');
    await page.locator('#confirm-yes').waitFor();
    await press('Tab', 'Enter');
    await row(page, 'keys').waitFor({state: 'detached'});
    assert.equal((await server.ask('GET', '/semaphore/value/keys')).status, 404);
  },

  async the_focus_stays_in_the_row_of_a_button_that_disappears({page, server}) {
    await server.ask('POST', '/semaphore', {name: 'lamp', value: 1});
    await server.ask('POST', '/semaphore/down', {name: 'lamp', lease: 600});
    // The keys of the row change the value after each button.
    const changed = async (key, text) => {
      await row(page, 'lamp').locator('.name:focus').waitFor();
      await page.keyboard.press(key);
      await value(page, 'lamp', text);
    };
    await open(page, 'lamp');
    await page.getByRole('button', {name: /^Free permit \d+$/}).click();
    await confirm(page);
    await changed('+', '2');
    await take(page, 'lamp', 600);
    await press(page, 'lamp', 'Release');
    await changed('-', '1');
    await changed('-', '0');
    const form = row(page, 'lamp').locator('form');
    await form.getByRole('spinbutton', {name: 'Wait'}).fill('600');
    await form.getByRole('button', {name: 'Down'}).click();
    await waiters(page, 'lamp', '1');
    await press(page, 'lamp', 'Stop waiting');
    await waiters(page, 'lamp', '0');
    await changed('+', '1');
  },

  async a_token_is_asked_for({page}) {
    const server = await start(0, {TURNSTILE_ADMIN_TOKEN: 'clé €'});
    await page.goto(server.url);
    await page.locator('#token').fill('wrong');
    await page.getByRole('button', {name: 'Connect'}).click();
    await page.locator('#token').fill('clé €');
    await page.getByRole('button', {name: 'Connect'}).click();
    await live(page);
    await page.locator('#token').waitFor({state: 'hidden'});
    // A link cannot send a token.
    assert.equal(await page.getByRole('link', {name: 'Metrics'}).isVisible(), false);
    await server.end();
  },

  async a_renewal_by_another_server_is_shown({page}) {
    const redis = await start_redis();
    const mine = await start(0, {TURNSTILE_REDIS_URL: redis.url});
    const other = await start(0, {TURNSTILE_REDIS_URL: redis.url});
    await mine.ask('POST', '/semaphore', {name: 'saw', value: 1});
    const {permit} = await (await other.ask('POST', '/semaphore/down', {name: 'saw', lease: 600})).json();
    await page.goto(mine.url);
    await open(page, 'saw');
    await shows(row(page, 'saw').locator('.holders li'), /lease ends in 9 min/);
    // Neither the value nor the number of permits changes.
    await other.ask('POST', '/semaphore/renew', {name: 'saw', permit, lease: 6000});
    await shows(row(page, 'saw').locator('.holders li'), /lease ends in 1 h/);
    await mine.end();
    await other.end();
    await redis.end();
  },

  async it_is_not_live_without_redis({page}) {
    const redis = await start_redis();
    const server = await start(0, {TURNSTILE_REDIS_URL: redis.url});
    await page.goto(server.url);
    await live(page);
    await page.locator('#empty').waitFor();
    await redis.end();
    await page.locator('body.lost').waitFor({timeout: 60000});
    // A page that has received no state does not claim that there are no semaphores.
    await page.reload();
    await page.locator('body.lost').waitFor({timeout: 60000});
    assert.equal(await page.locator('#empty').isHidden(), true);
    await server.end();
  },

  async it_fits_narrow_and_dark_screens({page, server}) {
    for (let i = 0; i < 5; ++i) await server.ask('POST', '/semaphore', {name: 'lathe ' + i, value: i + 1});
    await server.ask('POST', '/semaphore', {name: 'x'.repeat(200), value: 2 ** 53 - 1});
    await take(page, 'lathe 0', 600);
    await own(page, 'lathe 0').waitFor();
    await server.ask('POST', '/semaphore/down', {name: 'lathe 2', lease: 90, n: 2});
    const waiting = server.ask('POST', '/semaphore/down', {name: 'lathe 0', wait: 600});
    await waiters(page, 'lathe 0', '1');
    await row(page, 'lathe 0').locator('.queue li').waitFor();
    const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await ground();
    for (const [scheme, width, height] of [['light', 1100, 760], ['dark', 1100, 760], ['dark', 360, 780]]) {
      await page.emulateMedia({colorScheme: scheme});
      await page.setViewportSize({width, height});
      const wide = await page.evaluate(`[...document.querySelectorAll('main *')]
        .filter(each => each.getBoundingClientRect().right > innerWidth).map(each => each.className)`);
      assert.deepEqual(wide, [], 'wider than a screen of ' + width);
      if (screenshots) await page.screenshot({path: `${screenshots}/${scheme}_${width}.png`});
    }
    assert.notEqual(await ground(), light);
    await server.ask('DELETE', '/semaphore/lathe%200');
    assert.equal((await waiting).status, 404);
  },
};

let failures = 0;
for (const [name, test] of Object.entries(tests)) {
  const server = await start();
  const context = await browser.newContext();
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', error => errors.push(error));
  try {
    await page.goto(server.url);
    await live(page);
    await test({page, server});
    assert.deepEqual(errors, []);
    console.log('ok      ' + name);
  } catch (error) {
    ++failures;
    console.log('FAILED  ' + name + '\n' + error.stack);
  }
  await context.close();
  await server.end();
}
await browser.close();
// A failed test may have left servers.
process.exit(failures === 0 ? 0 : 1);
