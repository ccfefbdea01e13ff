// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCK_CLIENT_HPP
#define TURNSTILE_TEST_SUPPORT_LOCK_CLIENT_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/metrics.hpp>

namespace turnstile::redis {

class mutex_options;

}  // namespace turnstile::redis

namespace turnstile::test {

/// Polls until the condition holds, and returns whether it does. The time limit is so long that it expires
/// only if something is broken.
bool until(const std::function<bool()>& condition);

/// Returns whether the condition stays false for @p span.
bool never_within(std::chrono::milliseconds span, const std::function<bool()>& condition);

/// Settings for fault tests: short leases, and fast detection of broken connections.
redis::config short_leases(const std::string& url);

/// Settings for tests without faults: no lease expires and no connection is given up, however long a thread
/// or the server is paused.
redis::config undisturbed(const std::string& url);

/**
 * @brief An operation that waits for a lock or for units of a pool, or holds them, seen from the
 *        thread of the test.
 *
 * Its destructor destroys the guard.
 */
class candidate
{
public:
    candidate();
    candidate(const candidate&) = delete;
    candidate& operator=(const candidate&) = delete;
    ~candidate();

    [[nodiscard]] bool is_complete() const;
    /// Waits for the result: "held", "taken" for good, "not held" after a time-out, or the text of the
    /// error. Returns "waiting" if there is no result in time.
    [[nodiscard]] std::string result() const;
    [[nodiscard]] error_code error() const;

    /// Whether it has a valid guard.
    [[nodiscard]] bool holds() const;
    [[nodiscard]] std::uint64_t fence() const;
    /// Whether lost() was signalled.
    [[nodiscard]] bool knows_of_loss() const;

    void cancel();
    /// Releases, and waits for the answer.
    error_code unlock();
    /// Starts a release; unlocked() has the result.
    void start_unlock();
    /// The result of start_unlock(): "ok" or the text of the error; empty until then.
    [[nodiscard]] std::string unlocked() const;
    /// Destroys the guard on this thread.
    void drop();
    /// Releases some of the units of a permit in the background.
    void give_back(std::ptrdiff_t units);

private:
    friend class lock_client;
    struct shared;
    std::shared_ptr<shared> shared_;
};

/// A session with its own thread, and the locks and pools that it uses.
class lock_client
{
public:
    explicit lock_client(const redis::config& settings, int threads = 1);
    lock_client(const lock_client&) = delete;
    lock_client& operator=(const lock_client&) = delete;
    ~lock_client();

    /// Sets the lease options of a lock. Call it before the lock is used.
    void choose(const std::string& name, const redis::mutex_options& options);
    void choose_shared(const std::string& name, const redis::mutex_options& options);

    [[nodiscard]] std::unique_ptr<candidate> lock(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> try_lock(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> try_lock_for(const std::string& name,
                                                          std::chrono::nanoseconds time_limit);

    /// Sets the capacity of a semaphore. Call it before the semaphore is used.
    void size(const std::string& name, std::ptrdiff_t capacity);
    /// Sets also the lease options.
    void size(const std::string& name, std::ptrdiff_t capacity,
              const redis::mutex_options& options);

    [[nodiscard]] std::unique_ptr<candidate> acquire(const std::string& name, std::ptrdiff_t units);
    [[nodiscard]] std::unique_ptr<candidate> try_acquire(const std::string& name,
                                                         std::ptrdiff_t units);
    /// Takes units for good.
    [[nodiscard]] std::unique_ptr<candidate> take(const std::string& name, std::ptrdiff_t units);
    /// Adds units that no permit holds. The result has no guard.
    [[nodiscard]] std::unique_ptr<candidate> start_add(const std::string& name,
                                                       std::ptrdiff_t units);

    /// Operations of a shared mutex.
    [[nodiscard]] std::unique_ptr<candidate> write(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> read(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> read_to_upgrade(const std::string& name);
    /// On success, the guard of @p reader moves to the result. @p reader has to stay alive.
    [[nodiscard]] std::unique_ptr<candidate> upgrade(const std::string& name, candidate& reader);

    /// These wait for the result.
    error_code add(const std::string& name, std::ptrdiff_t units);
    /// The number of available units; -1 if there is no answer.
    std::ptrdiff_t value(const std::string& name);
    error_code ready();
    error_code ping();
    error_code close();

    [[nodiscard]] redis::session_metrics metrics() const;
    /// The session's log, in lines.
    [[nodiscard]] std::string log() const;
    /// Destroys a mutex, which aborts its waiters.
    void destroy_mutex(const std::string& name);
    /// Destroys the session; its mutexes remain.
    void destroy_session();

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace turnstile::test

#endif
