// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_CONCEPTS_HPP
#define TURNSTILE_CONCEPTS_HPP

#include <boost/asio/detached.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <turnstile/job.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/push_options.hpp>
#include <utility>

// Guarantees of every backend, for generic code. The compiler checks the syntax, the conformance
// suites test the semantics:
//
// - Fairness: waiters are granted in the order in which they began to wait. A newcomer never
//   overtakes.
// - A release grants the lock or the units to the next waiter in the same step. It runs no code of
//   the waiter: the completion is posted to the waiter's associated executor.
// - Every waiting operation accepts all cancellation types. It completes with operation_aborted, or
//   succeeds if it has been granted already. No grant is lost or made twice.
// - An object that is destroyed completes its waiters with operation_aborted.
// - The destructor of a guard or permit releases the lock or the units, without blocking or
//   throwing. After a release, the next waiter can be granted.
// - A lock of a type with can_be_lost may be lost before it is released; this triggers
//   guard.lost().

namespace turnstile {

/// A guard of any backend, such as `lock_guard`.
template <class Guard>
concept guard_of_lock = std::movable<Guard> && std::is_nothrow_move_constructible_v<Guard> &&
                        std::default_initializable<Guard> && requires(Guard& guard) {
                            { guard.owns_lock() } -> std::same_as<bool>;
                            { guard.valid() } -> std::same_as<bool>;
                            { guard.fencing_token() } -> std::same_as<std::uint64_t>;
                            guard.lost().is_connected();
                            guard.async_unlock(boost::asio::detached);
                        };

/// A guard whose lock is a lease with a known end.
template <class Guard>
concept guard_of_lease = guard_of_lock<Guard> && requires(const Guard& guard) {
    guard.expires_at() - decltype(guard.expires_at())::clock::now();
};

/// A permit of any backend, such as `permit`.
template <class Permit>
concept permit_of_units =
    std::movable<Permit> && std::is_nothrow_move_constructible_v<Permit> &&
    std::default_initializable<Permit> && requires(Permit& permit, std::ptrdiff_t units) {
        { permit.count() } -> std::same_as<std::ptrdiff_t>;
        static_cast<bool>(permit);
        { permit.valid() } -> std::same_as<bool>;
        { permit.split(units) } -> std::same_as<Permit>;
        permit.lost().is_connected();
        permit.forget();
        permit.async_release(boost::asio::detached);
    };

/// A mutex of any backend.
template <class Mutex>
concept awaitable_mutex = guard_of_lock<typename Mutex::guard_type> &&
                          requires(Mutex& mutex, owner_token token, std::chrono::milliseconds time,
                                   std::chrono::steady_clock::time_point deadline) {
                              { Mutex::is_leased } -> std::convertible_to<bool>;
                              { Mutex::can_be_lost } -> std::convertible_to<bool>;
                              mutex.get_executor();
                              mutex.async_lock(boost::asio::detached);
                              mutex.async_try_lock(boost::asio::detached);
                              mutex.async_try_lock_for(time, boost::asio::detached);
                              mutex.async_try_lock_until(deadline, boost::asio::detached);
                              mutex.async_enter(boost::asio::detached);
                              mutex.async_leave(token, boost::asio::detached);
                          };

/// A mutex of any backend that can also be held shared.
template <class Mutex>
concept awaitable_shared_mutex =
    guard_of_lock<typename Mutex::guard_type> && guard_of_lock<typename Mutex::shared_guard_type> &&
    guard_of_lock<typename Mutex::upgrade_guard_type> &&
    requires(Mutex& mutex, typename Mutex::upgrade_guard_type& guard,
             std::chrono::milliseconds time, std::chrono::steady_clock::time_point deadline) {
        { Mutex::is_leased } -> std::convertible_to<bool>;
        { Mutex::can_be_lost } -> std::convertible_to<bool>;
        mutex.get_executor();
        mutex.async_lock(boost::asio::detached);
        mutex.async_try_lock(boost::asio::detached);
        mutex.async_try_lock_for(time, boost::asio::detached);
        mutex.async_try_lock_until(deadline, boost::asio::detached);
        mutex.async_lock_shared(boost::asio::detached);
        mutex.async_try_lock_shared(boost::asio::detached);
        mutex.async_try_lock_shared_for(time, boost::asio::detached);
        mutex.async_try_lock_shared_until(deadline, boost::asio::detached);
        mutex.async_lock_upgrade(boost::asio::detached);
        mutex.async_try_lock_upgrade(boost::asio::detached);
        mutex.async_try_lock_upgrade_for(time, boost::asio::detached);
        mutex.async_try_lock_upgrade_until(deadline, boost::asio::detached);
        mutex.async_upgrade(guard, boost::asio::detached);
    };

/// A semaphore of any backend.
template <class Semaphore>
concept awaitable_semaphore =
    permit_of_units<typename Semaphore::permit_type> &&
    requires(Semaphore& semaphore, std::ptrdiff_t units, std::chrono::milliseconds time,
             std::chrono::steady_clock::time_point deadline) {
        { Semaphore::is_leased } -> std::convertible_to<bool>;
        { Semaphore::can_be_lost } -> std::convertible_to<bool>;
        semaphore.get_executor();
        semaphore.async_acquire(units, boost::asio::detached);
        semaphore.async_try_acquire(units, boost::asio::detached);
        semaphore.async_try_acquire_for(units, time, boost::asio::detached);
        semaphore.async_try_acquire_until(units, deadline, boost::asio::detached);
        semaphore.async_take(units, boost::asio::detached);
        semaphore.async_take(boost::asio::detached);
        semaphore.async_release(units, boost::asio::detached);
        semaphore.async_release(boost::asio::detached);
        semaphore.async_available(boost::asio::detached);
        semaphore.async_set_capacity(units, boost::asio::detached);
    };

/// A condition of a mutex, of any backend.
template <class Condition>
concept awaitable_condition =
    requires(Condition& condition, typename Condition::guard_type& guard, bool (*predicate)(),
             std::chrono::milliseconds time, std::chrono::steady_clock::time_point deadline) {
        condition.async_wait(guard, boost::asio::detached);
        condition.async_wait(guard, predicate, boost::asio::detached);
        condition.async_wait_for(guard, time, boost::asio::detached);
        condition.async_wait_for(guard, time, predicate, boost::asio::detached);
        condition.async_wait_until(guard, deadline, boost::asio::detached);
        condition.async_wait_until(guard, deadline, predicate, boost::asio::detached);
        condition.async_notify_one(boost::asio::detached);
        condition.async_notify_all(boost::asio::detached);
    };

/// A monitor of any backend. A section, in which the lock is held, waits and notifies.
template <class Monitor>
concept awaitable_monitor =
    requires(Monitor& monitor, typename Monitor::section& section,
             typename Monitor::condition_type& condition, void (*body)(typename Monitor::section&),
             bool (*predicate)(decltype(std::as_const(*section))), std::chrono::milliseconds time,
             std::chrono::steady_clock::time_point deadline) {
        { monitor.make_condition("name") } -> std::same_as<typename Monitor::condition_type>;
        monitor.get_executor();
        monitor.async_with(body, boost::asio::detached);
        section.operator->();
        section.async_wait(condition, predicate, boost::asio::detached);
        section.async_wait_for(condition, time, predicate, boost::asio::detached);
        section.async_wait_until(condition, deadline, predicate, boost::asio::detached);
        section.notify_one(condition);
        section.notify_all(condition);
    };

/// An event of any backend.
template <class Event>
concept awaitable_event = requires(Event& event, std::chrono::milliseconds time,
                                   std::chrono::steady_clock::time_point deadline) {
    event.get_executor();
    event.async_wait(boost::asio::detached);
    event.async_wait_for(time, boost::asio::detached);
    event.async_wait_until(deadline, boost::asio::detached);
    event.async_set(boost::asio::detached);
    event.async_reset(boost::asio::detached);
    event.async_is_set(boost::asio::detached);
};

/// A latch of any backend.
template <class Latch>
concept awaitable_latch =
    requires(Latch& latch, std::ptrdiff_t arrivals, std::chrono::milliseconds time,
             std::chrono::steady_clock::time_point deadline) {
        latch.get_executor();
        latch.async_wait(boost::asio::detached);
        latch.async_wait_for(time, boost::asio::detached);
        latch.async_wait_until(deadline, boost::asio::detached);
        latch.async_try_wait(boost::asio::detached);
        latch.async_count_down(arrivals, boost::asio::detached);
        latch.async_count_down(boost::asio::detached);
        latch.async_arrive_and_wait(boost::asio::detached);
    };

/// A barrier of any backend.
template <class Barrier>
concept awaitable_barrier = requires(Barrier& barrier) {
    barrier.get_executor();
    barrier.async_arrive_and_wait(boost::asio::detached);
    barrier.async_arrive_and_drop(boost::asio::detached);
};

/// A job queue of any backend.
template <class Queue>
concept awaitable_job_queue =
    std::movable<typename Queue::job_type> &&
    requires(Queue& queue, typename Queue::job_type& job, typename Queue::value_type payload,
             push_options options, std::chrono::milliseconds time) {
        { Queue::is_leased } -> std::convertible_to<bool>;
        queue.get_executor();
        queue.async_push(std::move(payload), boost::asio::detached);
        queue.async_push(std::move(payload), options, boost::asio::detached);
        queue.async_next(boost::asio::detached);
        queue.async_pause(boost::asio::detached);
        queue.async_resume(boost::asio::detached);
        queue.async_limit_rate(1, time, boost::asio::detached);
        queue.async_drain(boost::asio::detached);
        queue.async_purge(boost::asio::detached);
        queue.async_retry(job_id(1), boost::asio::detached);
        queue.async_counts(boost::asio::detached);
        queue.async_list(job_state::dead, 0, 1, boost::asio::detached);
        { job.attempt() } -> std::same_as<std::ptrdiff_t>;
        { job.fencing_token() } -> std::same_as<std::uint64_t>;
        job.progress(0.5);
        job.lost().is_connected();
        job.async_finish(boost::asio::detached);
        job.async_fail("", boost::asio::detached);
        job.async_release(boost::asio::detached);
        job.async_finish_and_next(boost::asio::detached);
    };

}  // namespace turnstile

#endif
