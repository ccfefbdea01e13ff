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
#include <turnstile/redis/take_mode.hpp>

namespace turnstile::redis {

class mutex_options;

}  // namespace turnstile::redis

namespace turnstile::test {

/// Looks again and again until something is so, and says whether it is. Gives up so late that nobody comes
/// near it unless something is broken.
bool until(const std::function<bool()>& condition);

/// The same, but of something that must not become so for a while.
bool never_within(std::chrono::milliseconds span, const std::function<bool()>& condition);

/// Settings for the tests of faults: short leases, and a break is soon noticed and mended.
redis::config short_leases(const std::string& url);

/// Settings for tests in which nothing breaks: however long a thread or the server is kept from running, no
/// lease ends, and no connection is taken for dead.
redis::config undisturbed(const std::string& url);

/**
 * @brief Somebody who waits for a lock or for units of a pool, or holds them; seen from the thread of the
 * test.
 *
 * When it is destroyed, the guard is, if it has one.
 */
class candidate
{
public:
    candidate();
    candidate(const candidate&) = delete;
    candidate& operator=(const candidate&) = delete;
    ~candidate();

    [[nodiscard]] bool is_told() const;
    /// Waits for the end: "held", "taken" for good, "not held" if the time was up, or the text of the error.
    /// "waiting" if the end does not come.
    [[nodiscard]] std::string result() const;
    [[nodiscard]] error_code error() const;

    /// Whether it has a guard, and that is valid.
    [[nodiscard]] bool holds() const;
    [[nodiscard]] std::uint64_t fence() const;
    /// Whether the slot lost() was triggered.
    [[nodiscard]] bool is_told_of_loss() const;

    void cancel();
    /// Gives back, and waits for the answer.
    error_code unlock();
    /// Gives back, and does not wait; the answer will be in unlocked().
    void start_unlock();
    /// What start_unlock() came to: "ok" or the text of the error; empty until then.
    [[nodiscard]] std::string unlocked() const;
    /// Destroys the guard, on this thread.
    void drop();
    /// Gives some of the units of a permit back, in the background.
    void give_back(std::ptrdiff_t units);

private:
    friend class lock_client;
    struct shared;
    std::shared_ptr<shared> shared_;
};

/// A session, with a thread that runs it, and the locks and pools that it is used for.
class lock_client
{
public:
    explicit lock_client(const redis::config& settings, int threads = 1);
    lock_client(const lock_client&) = delete;
    lock_client& operator=(const lock_client&) = delete;
    ~lock_client();

    /// Says how a lock is leased; before it is used.
    void choose(const std::string& name, const redis::mutex_options& options);

    [[nodiscard]] std::unique_ptr<candidate> lock(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> try_lock(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> try_lock_for(const std::string& name,
                                                          std::chrono::nanoseconds patience);

    /// Says how many units a semaphore has; before it is used.
    void size(const std::string& name, std::ptrdiff_t capacity);

    [[nodiscard]] std::unique_ptr<candidate> acquire(const std::string& name, std::ptrdiff_t units);
    [[nodiscard]] std::unique_ptr<candidate> try_acquire(const std::string& name,
                                                         std::ptrdiff_t units);
    /// For good.
    [[nodiscard]] std::unique_ptr<candidate> take(
        const std::string& name, std::ptrdiff_t units,
        redis::take_mode mode = redis::take_mode::confirmed);
    /// Adds units that no permit holds; has no guard, but can be waited for.
    [[nodiscard]] std::unique_ptr<candidate> start_add(const std::string& name,
                                                       std::ptrdiff_t units);

    /// Of a shared mutex.
    [[nodiscard]] std::unique_ptr<candidate> write(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> read(const std::string& name);
    [[nodiscard]] std::unique_ptr<candidate> read_to_upgrade(const std::string& name);
    /// What the other one holds goes to the result, if that succeeds. It has to stay.
    [[nodiscard]] std::unique_ptr<candidate> upgrade(const std::string& name, candidate& reader);

    /// Each waits for its end.
    error_code add(const std::string& name, std::ptrdiff_t units);
    /// How many units are available; -1 if there is no answer.
    std::ptrdiff_t value(const std::string& name);
    error_code ready();
    error_code ping();
    error_code close();

    [[nodiscard]] redis::session_metrics metrics() const;
    /// What was logged so far, in lines.
    [[nodiscard]] std::string log() const;
    /// Forgets a mutex, whose waiters are told.
    void destroy_mutex(const std::string& name);
    /// Destroys the session; what has been made stays.
    void destroy_session();

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace turnstile::test

#endif
