// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Job queues for Node.js: BullMQ, and a scheduler with lists, pub/sub and a dispatcher; see jobs.cpp.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');

const [library, port, concurrency] = process.argv.slice(2);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const now = () => process.hrtime.bigint();
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Each class is a queue with the functions push(count), add(), work(started, finished) and close().

// Keeps no finished jobs, as the other queues do.
class BullQueue {
  constructor(name) {
    const { Queue } = require('bullmq');
    this.name = name;
    this.queue = new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } });
  }

  async push(count) {
    await this.queue.addBulk(Array.from({ length: count }, (_, data) => ({ name: 'job', data: { data } })));
  }

  add() {
    return this.queue.add('job', { data: 0 });
  }

  async work(started, finished) {
    const { Worker } = require('bullmq');
    this.worker = new Worker(this.name, async () => started(), { connection, concurrency: Number(concurrency) });
    this.worker.on('completed', finished);
    await this.worker.waitUntilReady();
  }

  async close() {
    await this.worker.close();
    await this.queue.close();
  }
}

// A list of jobs, a list of idle workers, a channel for the dispatcher and one for each worker. The dispatcher moves a
// job and a worker out of their lists at a time. A worker that crashes loses its job: there is neither a lease nor an
// answer.
class ListQueue {
  constructor(name) {
    this.name = name;
    this.clients = [];
    this.reactions = new Set();
    this.client = this.connect();
    // Notifies the dispatcher if there is work.
    this.client.defineCommand('notify', {
      numberOfKeys: 3,
      lua: `if redis.call('LLEN', KEYS[1]) > 0 and redis.call('LLEN', KEYS[2]) > 0 then
              return redis.call('PUBLISH', KEYS[3], '')
            end
            return -1`,
    });
    this.client.defineCommand('match', {
      numberOfKeys: 2,
      lua: `if redis.call('LLEN', KEYS[1]) > 0 and redis.call('LLEN', KEYS[2]) > 0 then
              return {redis.call('RPOP', KEYS[1]), redis.call('RPOP', KEYS[2])}
            end`,
    });
  }

  connect() {
    const client = new Redis(connection);
    this.clients.push(client);
    return client;
  }

  // Calls an asynchronous function for each message. The end of the queue waits for the calls in progress.
  async react(client, channel, each) {
    client.on('message', (_, message) => {
      const reaction = each(message).finally(() => this.reactions.delete(reaction));
      this.reactions.add(reaction);
    });
    await client.subscribe(channel);
  }

  key(part) {
    return `{${this.name}}${part}`;
  }

  notify() {
    return this.client.notify(this.key('jobs'), this.key('workers'), this.key('events'));
  }

  async add() {
    const id = await this.client.incr(this.key('id'));
    await this.client.lpush(this.key('jobs'), id);
    await this.notify();
  }

  async push(count) {
    await together(count, () => this.add());
  }

  async work(started, finished) {
    await this.react(this.connect(), this.key('events'), async () => {
      const pair = await this.client.match(this.key('jobs'), this.key('workers'));
      if (pair) {
        await this.client.publish(pair[1], pair[0]);
      }
    });
    for (let i = 0; i !== Number(concurrency); ++i) {
      const channel = this.key('worker' + i);
      const worker = this.connect();
      const offer = async () => {
        await this.client.lpush(this.key('workers'), channel);
        await this.notify();
      };
      await this.react(worker, channel, async () => {
        started();
        finished();
        await offer();
      });
      await offer();
    }
  }

  async close() {
    while (this.reactions.size > 0) {
      await Promise.all(this.reactions);
    }
    this.clients.forEach((each) => each.disconnect());
  }
}

// Calls an asynchronous function a number of times, at most 50 at once.
async function together(count, each) {
  let left = count;
  const some = async () => {
    while (left-- > 0) {
      await each();
    }
  };
  await Promise.all(Array.from({ length: 50 }, some));
}

let number = 0;
let queue;
let onStart;
let onAll;
let left;

function open() {
  queue = new { bullmq: BullQueue, lists: ListQueue }[library]('bench' + ++number);
  onStart = () => {};
}

function work() {
  const finished = () => {
    if (--left === 0) {
      onAll();
    }
  };
  return queue.work(() => onStart(), finished);
}

function all(count) {
  left = count;
  return new Promise((resolve) => (onAll = resolve));
}

const steps = {
  async push(count) {
    open();
    await queue.push(count);
  },

  async work(count) {
    const done = all(count);
    const begin = now();
    await work();
    await done;
    return now() - begin;
  },

  async both(count) {
    open();
    const done = all(count);
    await work();
    const begin = now();
    await Promise.all([together(count, () => queue.add()), done]);
    return now() - begin;
  },

  async idle(count) {
    open();
    const done = all(count);
    await work();
    const times = [];
    for (let i = 0; i !== count; ++i) {
      await pause(2);
      let begin;
      const start = new Promise((resolve) => (onStart = () => resolve(now() - begin)));
      begin = now();
      const pushed = queue.add();
      times.push(await start);
      await pushed;
    }
    await done;
    return times.sort((a, b) => (a < b ? -1 : 1))[Math.floor(count / 2)];
  },

  async close() {
    await queue.close();
  },
};

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const [step, count] = line.split(' ');
  try {
    console.log(String((await steps[step](Number(count))) ?? 0));
  } catch (error) {
    console.log(String(error));
  }
});
console.log('ready');
