// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_GRANT_HPP
#define TURNSTILE_REDIS_DETAIL_GRANT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/take_mode.hpp>
#include <utility>
#include <vector>

namespace turnstile::redis::detail {

class bond_handle;
struct condition_handle;
class held_lock;
class lock_handle;
class session_core;

/// A lock that is held over a session; what a guard stores.
class grant
{
public:
    grant() noexcept = default;
    explicit grant(std::shared_ptr<held_lock> held) noexcept
        : held_(std::move(held))
    {
    }

    grant(grant&& other) noexcept = default;
    grant& operator=(grant&& other) noexcept
    {
        unlock();
        held_ = std::move(other.held_);
        return *this;
    }
    ~grant() { unlock(); }

    [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
    [[nodiscard]] bool valid() const noexcept;
    [[nodiscard]] std::uint64_t number() const noexcept;
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept;
    [[nodiscard]] lease_clock::time_point expires_at() const noexcept;
    [[nodiscard]] boost::asio::any_io_executor executor() const;

    /// Whether it was got after a sleep that no signal ended.
    [[nodiscard]] bool is_woken() const noexcept;

    /// Of a monitor, the fields of the state that came with it.
    [[nodiscard]] const std::map<std::string, std::string>& state() const noexcept;

    /// It has reached its handler.
    void arrive() const noexcept;

    /// Gives the lock back in the background.
    void unlock() noexcept;

    /// What the grant owns; it goes on to.
    [[nodiscard]] std::shared_ptr<held_lock> share() const noexcept { return held_; }

    /// Empties the grant, and hands out what it owned.
    [[nodiscard]] std::shared_ptr<held_lock> detach() noexcept { return std::move(held_); }

    /// Empties the grant; the lock is the token's from now on.
    [[nodiscard]] owner_token disown() noexcept;

    template <class CompletionToken>
    static auto async_unlock(grant& owned, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiate_unlock(owned), token);
    }

private:
    class initiate_unlock
    {
    public:
        using executor_type = boost::asio::any_io_executor;

        explicit initiate_unlock(grant& owned) noexcept
            : owned_(&owned)
        {
        }

        [[nodiscard]] executor_type get_executor() const { return owned_->executor(); }

        template <class Handler>
        void operator()(Handler&& handler) const
        {
            const auto executor = get_executor();
            start_unlock(std::exchange(owned_->held_, nullptr),
                         {std::forward<Handler>(handler), executor});
        }

    private:
        grant* owned_;
    };

    static void start_unlock(const std::shared_ptr<held_lock>& held,
                             erased_handler<void(error_code)> handler);

    std::shared_ptr<held_lock> held_;
};

/// How long somebody is ready to wait for a lock.
class patience
{
public:
    /// For ever.
    patience() noexcept = default;

    /// For a duration; one of zero or less means not at all.
    explicit patience(std::chrono::nanoseconds limit) noexcept
        : limit_(limit)
    {
    }

    [[nodiscard]] const std::optional<std::chrono::nanoseconds>& limit() const noexcept
    {
        return limit_;
    }

private:
    std::optional<std::chrono::nanoseconds> limit_;
};

/// The patience for a duration of any kind.
template <class Rep, class Period>
[[nodiscard]] patience to_patience(const std::chrono::duration<Rep, Period>& duration) noexcept
{
    using std::chrono::nanoseconds;
    // Compared as floating point, since a long duration does not fit.
    using seconds = std::chrono::duration<double>;
    if (std::chrono::duration_cast<seconds>(duration) >= std::chrono::hours(24 * 365 * 100))
        return patience();
    if (duration <= std::chrono::duration<Rep, Period>::zero())
        return patience(nanoseconds(0));
    return patience(std::chrono::ceil<nanoseconds>(duration));
}

/// The patience until a point of time of any clock.
template <class Clock, class Duration>
[[nodiscard]] patience to_patience(const std::chrono::time_point<Clock, Duration>& deadline)
{
    // The difference may not fit either: it is taken only if it is certainly a small one.
    using seconds = std::chrono::duration<double>;
    const auto now = Clock::now();
    const seconds left = seconds(deadline.time_since_epoch()) - seconds(now.time_since_epoch());
    if (left < -std::chrono::hours(1) || left > std::chrono::hours(24 * 365 * 100))
        return to_patience(left);
    return to_patience(deadline - now);
}

using lock_handler = erased_handler<void(error_code, grant)>;
using count_handler = erased_handler<void(error_code, std::int64_t)>;
using leave_handler = erased_handler<void(error_code)>;

/// Waits for a lock. Without an error, an empty grant means that the patience was not enough.
void start_lock(const std::shared_ptr<lock_handle>& lock, patience patience, lock_handler handler);

/// Waits for units of a pool; likewise. If they are taken, the grant is empty, and `timed_out` means that
/// the patience was not enough.
void start_acquire(const std::shared_ptr<lock_handle>& pool, patience patience, std::int64_t units,
                   std::optional<take_mode> takes, lock_handler handler);

/// Waits for more units of a pool, in front of all others, for somebody who has some. The grant that it
/// completes with owns what the guard owns, too.
void start_upgrade(const std::shared_ptr<lock_handle>& pool, grant& guard, std::int64_t units,
                   lock_handler handler);

/// A condition of a lock. Throws if it cannot have the name.
[[nodiscard]] std::shared_ptr<condition_handle> make_condition(
    const std::shared_ptr<lock_handle>& lock, std::string_view name);

/// What keeps a grant from sleeping on a condition; nothing if it is its lock's.
[[nodiscard]] error_code check_sleep(const condition_handle& condition,
                                     const grant& guard) noexcept;

/// What a section of a monitor says as it ends, or goes to sleep.
struct last_words
{
    /// The conditions that are signalled, as the server knows them, and whether all sleepers are.
    std::vector<std::pair<std::string, bool>> signals;
    /// The fields of the state that have changed; one without a value is no more.
    std::vector<std::pair<std::string, std::optional<std::string>>> fields;
    /// The contributions that the fields contain now, and those that were taken out of them.
    std::vector<std::shared_ptr<bond_handle>> contributed;
    std::vector<std::shared_ptr<bond_handle>> withdrawn;
};

/// Gives back what a grant owns, sleeps no longer than the patience, and completes with the next grant.
void start_sleep(const std::shared_ptr<condition_handle>& condition, grant& guard,
                 patience patience, lock_handler handler, last_words words = {});

/// Signals one who sleeps on a condition, or all. Without a handler, nobody is told how that went.
void start_signal(const std::shared_ptr<condition_handle>& condition, bool all,
                  count_handler handler);
void signal(const std::shared_ptr<condition_handle>& condition, bool all) noexcept;

/// Aborts those who sleep on a condition, in this process.
void forget(const std::shared_ptr<condition_handle>& condition) noexcept;

/// The executor of handlers that have none.
[[nodiscard]] boost::asio::any_io_executor executor_of(const condition_handle& condition) noexcept;

/// Adds units to a pool that no permit holds.
void start_add(const std::shared_ptr<lock_handle>& pool, std::int64_t units, leave_handler handler);

/// Creates a pool. The result is whether it did not exist.
void start_create(const std::shared_ptr<lock_handle>& pool, count_handler handler);

/// Reads how many units of a pool are available.
void start_read(const std::shared_ptr<lock_handle>& pool, count_handler handler);

/// Completes the waiters of a lock with `operation_aborted`.
void forget(const std::shared_ptr<lock_handle>& lock) noexcept;

/// The executor of handlers that have none.
[[nodiscard]] boost::asio::any_io_executor executor_of(const lock_handle& lock) noexcept;

/// The name that users gave to a lock.
[[nodiscard]] const std::string& name_of(const lock_handle& lock) noexcept;

/// Gives back what a token owns.
void start_leave(const std::shared_ptr<lock_handle>& lock, owner_token owner,
                 leave_handler handler);

}  // namespace turnstile::redis::detail

#endif
