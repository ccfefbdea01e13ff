// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_FWD_HPP
#define TURNSTILE_FWD_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/require.hpp>

// Declares the primitives and what they return, for headers that only name them. This is the only place for default
// template arguments, and for the aliases of the primitives.

namespace turnstile {

/**
 * @brief An executor that an object can have as its fallback.
 *
 * A function can be submitted to it without running inside the submission; otherwise a release
 * would run code of the next holder. So `boost::asio::any_completion_executor` and
 * `boost::asio::inline_executor` are excluded. Handlers may have any executor.
 */
template <class Executor>
concept fallback_executor =
    boost::asio::can_require_v<Executor, boost::asio::execution::blocking_t::never_t> ||
    // An executor of the Networking TS, which has no properties.
    (!boost::asio::execution::is_executor<Executor>::value &&
     requires(const Executor& executor) { executor.on_work_started(); });

class lock_watch;
class owner_token;
struct lock_snapshot;
struct synchronized;
struct unsynchronized;

template <class Mutex>
class condition;

template <class Queue>
class job;

template <class Mutex>
class lock_guard;

template <class Semaphore>
class permit;

template <class T, class... Steps>
class transaction;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_async_mutex;

/// A thread-safe mutex for any executor: the one to start with.
using async_mutex = basic_async_mutex<>;

/// A mutex that is used from one thread or strand only.
using unsynchronized_async_mutex = basic_async_mutex<boost::asio::any_io_executor, unsynchronized>;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_async_semaphore;

/// A thread-safe semaphore for any executor: the one to start with.
using async_semaphore = basic_async_semaphore<>;

/// A semaphore that is used from one thread or strand only.
using unsynchronized_async_semaphore =
    basic_async_semaphore<boost::asio::any_io_executor, unsynchronized>;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_shared_mutex;

/// A thread-safe reader-writer mutex for any executor: the one to start with.
using shared_mutex = basic_shared_mutex<>;

/// A reader-writer mutex that is used from one thread or strand only.
using unsynchronized_shared_mutex =
    basic_shared_mutex<boost::asio::any_io_executor, unsynchronized>;

template <class T, fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_monitor;

/// A thread-safe monitor for any executor: the one to start with.
template <class T>
using monitor = basic_monitor<T>;

/// A monitor that is used from one thread or strand only.
template <class T>
using unsynchronized_monitor = basic_monitor<T, boost::asio::any_io_executor, unsynchronized>;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_event;

/// A thread-safe event for any executor: the one to start with.
using event = basic_event<>;

/// An event that is used from one thread or strand only.
using unsynchronized_event = basic_event<boost::asio::any_io_executor, unsynchronized>;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_latch;

/// A thread-safe latch for any executor: the one to start with.
using latch = basic_latch<>;

/// A latch that is used from one thread or strand only.
using unsynchronized_latch = basic_latch<boost::asio::any_io_executor, unsynchronized>;

template <fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_barrier;

/// A thread-safe barrier for any executor: the one to start with.
using barrier = basic_barrier<>;

/// A barrier that is used from one thread or strand only.
using unsynchronized_barrier = basic_barrier<boost::asio::any_io_executor, unsynchronized>;

template <class T, fallback_executor Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_job_queue;

/// A thread-safe job queue for any executor: the one to start with.
template <class T>
using job_queue = basic_job_queue<T>;

/// A job queue that is used from one thread or strand only.
template <class T>
using unsynchronized_job_queue = basic_job_queue<T, boost::asio::any_io_executor, unsynchronized>;

}  // namespace turnstile

#endif
