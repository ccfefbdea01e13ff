# Copyright (c) 2026 The Turnstile authors
# Distributed under the Boost Software License, Version 1.0.
# (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
"""Workers with the Lock of redis-py, a thread each; see redis_peers.hpp."""

import os
import sys
import threading
import time

import redis

port, name, workers, milliseconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = redis.Redis(port=port)
sections = []


def work(worker):
    lock = client.lock(name, timeout=15)
    while True:
        lock.acquire()
        mine = [worker, time.monotonic_ns(), 0]
        sections.append(mine)
        if milliseconds:
            time.sleep(milliseconds / 1000)
        mine[2] = time.monotonic_ns()
        lock.release()


client.ping()
print("ready", flush=True)
sys.stdin.readline()
for i in range(workers):
    threading.Thread(target=work, args=(i,), daemon=True).start()
sys.stdin.readline()
for each in sections[:]:
    print(*each)
print("end", flush=True)
os._exit(0)
