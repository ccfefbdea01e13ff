// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_FWD_HPP
#define TURNSTILE_REDIS_FWD_HPP

// Declares the public classes of the Redis backend, for headers that only name them.

namespace turnstile::redis {

class async_mutex;
class async_semaphore;
class barrier;
class condition;
class contribution;
class event;
class latch;
class mutex_options;
class semaphore_directory;
class session;
class shared_mutex;
struct config;
struct lock_status;

template <class T>
class job_queue;
template <class T>
class monitor;

}  // namespace turnstile::redis

#endif
