// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Workers with a lock for Node.js: redis-semaphore or redlock; see redis_peers.hpp.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');

const [library, port, name, workers, milliseconds] = process.argv.slice(2);
const client = new Redis(Number(port));
const sections = [];

// Each function acquires the lock and returns a function that releases it. No attempt times out.
const locks = {
  'redis-semaphore': () => {
    const { Mutex } = require('redis-semaphore');
    return async () => {
      const mutex = new Mutex(client, name, { acquireTimeout: 3600000 });
      await mutex.acquire();
      return () => mutex.release();
    };
  },
  redlock: () => {
    const Redlock = require('redlock');
    const redlock = new Redlock([client], { retryCount: -1 });
    return async () => {
      const lock = await redlock.lock(name, 15000);
      return () => lock.unlock();
    };
  },
};
const acquire = locks[library]();

async function work(worker) {
  for (;;) {
    const release = await acquire();
    const mine = [worker, process.hrtime.bigint(), 0];
    sections.push(mine);
    if (Number(milliseconds)) {
      await new Promise((resolve) => setTimeout(resolve, Number(milliseconds)));
    }
    mine[2] = process.hrtime.bigint();
    await release();
  }
}

function stop() {
  const lines = sections.map((each) => each.join(' ') + '\n');
  process.stdout.write(lines.join('') + 'end\n', () => process.exit(0));
}

const steps = {
  go: () => {
    for (let i = 0; i !== Number(workers); ++i) {
      work(i);
    }
  },
  stop,
};

client.ping().then(() => console.log('ready'));
readline.createInterface({ input: process.stdin }).on('line', (line) => steps[line]());
