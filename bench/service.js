// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A server of Node.js without packages that does the work of `up`. See bench/service.sh.
'use strict';

const semaphores = new Map();

require('node:http').createServer((request, response) => {
  let text = '';
  request.on('data', part => { text += part; });
  request.on('end', () => {
    const { name, value } = JSON.parse(text);
    const present = semaphores.get(name) ?? value ?? 0;
    const next = request.url === '/semaphore/up' ? present + 1 : present;
    semaphores.set(name, next);
    const body = JSON.stringify({ name, value: next });
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
    response.end(body);
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
