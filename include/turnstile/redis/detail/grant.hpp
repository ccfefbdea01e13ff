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
#include <turnstile/detail/saturated.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <utility>
#include <vector>

namespace turnstile::redis::detail {

class contribution_handle;
struct condition_handle;
class held_lock;
class lock_handle;
class session_core;

/// A lock that is held through a session; stored by a guard.
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
    /// The fallback executor; the system executor if nothing is held.
    [[nodiscard]] boost::asio::any_io_executor executor() const;

    /// Whether the wait that led to this grant ended without a notification.
    [[nodiscard]] bool is_unnotified() const noexcept;

    /// For a monitor, the fields of the state that arrived with the grant.
    [[nodiscard]] const std::map<std::string, std::string>& state() const noexcept;

    /// Records that the grant has reached its handler, and the delay since its message.
    void record_delivery() const noexcept;

    /// Releases the lock in the background.
    void unlock() noexcept;

    /// The held lock, which the grant keeps.
    [[nodiscard]] std::shared_ptr<held_lock> share() const noexcept { return held_; }

    /// Empties the grant and returns the held lock.
    [[nodiscard]] std::shared_ptr<held_lock> detach() noexcept { return std::move(held_); }

    template <class CompletionToken>
    static auto async_unlock(grant& owned, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiation(owned), token, &grant::start_unlock, without_result());
    }

private:
    static void start_unlock(grant& owned, erased_handler<void(error_code)> handler);

    std::shared_ptr<held_lock> held_;
};

/// The grant of a mutex, whose lock can be held by a token instead of a guard.
class mutex_grant : public grant
{
public:
    using grant::grant;
    mutex_grant() noexcept = default;
    mutex_grant(grant&& other) noexcept
        : grant(std::move(other))
    {
    }

    /// Empties the grant; a token holds the lock from now on. If the mutex was destroyed, nothing could accept a
    /// token: then the grant keeps its lock, and the result is an empty token.
    [[nodiscard]] owner_token disown() noexcept;
};

/// The time limit of an operation; nothing for no limit. With zero or less, the operation does not wait.
using time_limit = std::optional<std::chrono::nanoseconds>;

/// Converts a duration of any type. More than 100 years are no limit.
template <class Rep, class Period>
[[nodiscard]] time_limit to_time_limit(const std::chrono::duration<Rep, Period>& duration) noexcept
{
    using std::chrono::nanoseconds;
    const auto limit = turnstile::detail::saturated<nanoseconds>(duration);
    if (limit > std::chrono::hours(24 * 365 * 100))
        return time_limit();
    return time_limit(limit > nanoseconds::zero() ? limit : nanoseconds::zero());
}

/// Converts a time point of any clock.
template <class Clock, class Duration>
[[nodiscard]] time_limit to_time_limit(const std::chrono::time_point<Clock, Duration>& deadline)
{
    // The difference of integers may overflow.
    using exact_type = std::chrono::duration<long double, typename Clock::period>;
    const auto end =
        turnstile::detail::saturated<typename Clock::duration>(deadline.time_since_epoch());
    return to_time_limit(exact_type(end) - exact_type(Clock::now().time_since_epoch()));
}

using lock_handler = erased_handler<void(error_code, grant)>;
using count_handler = erased_handler<void(error_code, std::int64_t)>;
using done_handler = erased_handler<void(error_code)>;

/// Makes a guard or a permit from a grant.
template <class Owner, class Grant = grant>
struct to_owner
{
    Owner operator()(grant granted) const
    {
        granted.record_delivery();
        return turnstile::detail::guard_access::make<Owner>(Grant(std::move(granted)));
    }
};

/// The same for an operation that a time-out or a failed try ends without a grant.
template <class Owner, class Grant = grant>
struct to_optional_owner
{
    std::optional<Owner> operator()(grant granted) const
    {
        if (!granted)
            return std::nullopt;
        return to_owner<Owner, Grant>()(std::move(granted));
    }
};

/// Converts the number that is the result of an operation.
template <class To>
struct number_to
{
    To operator()(std::int64_t number) const noexcept { return static_cast<To>(number); }
};

/// Waits for a lock. An empty grant without an error means a time-out, or that a try found the lock held.
void start_lock(const std::shared_ptr<lock_handle>& lock, time_limit limit, lock_handler handler);

/// Waits for units of a pool. An empty grant without an error means a time-out or a failed try. If @p takes, the
/// units are taken for good: the grant is always empty, and the error `timed_out` reports the time-out.
void start_acquire(const std::shared_ptr<lock_handle>& pool, time_limit limit, std::int64_t units,
                   bool takes, lock_handler handler);

/// Waits for more units of a pool, in front of all other waiters, for a holder of units. The new grant
/// includes what @p guard holds.
void start_upgrade(const std::shared_ptr<lock_handle>& pool, grant& guard, std::int64_t units,
                   lock_handler handler);

/// Makes a condition of a lock. Throws if the name is invalid.
[[nodiscard]] std::shared_ptr<condition_handle> make_condition(
    const std::shared_ptr<lock_handle>& lock, std::string_view name);

/// The reason why a grant cannot wait on a condition; no error if it holds the condition's lock.
[[nodiscard]] error_code check_wait(const condition_handle& condition, const grant& guard) noexcept;

/// The changes that a critical section of a monitor commits when it ends or waits.
struct section_changes
{
    section_changes();
    section_changes(section_changes&& other) noexcept;
    section_changes& operator=(section_changes&& other) noexcept;
    ~section_changes();

    /// The notified conditions, by the server's names, and whether all of their waiters are notified.
    std::vector<std::pair<std::string, bool>> notifications;
    /// The changed fields of the state; one without a value is removed.
    std::vector<std::pair<std::string, std::optional<std::string>>> fields;
    /// The contributions that the critical section has made and withdrawn.
    std::vector<std::shared_ptr<contribution_handle>> contributed;
    std::vector<std::shared_ptr<contribution_handle>> withdrawn;
    /// Whether the critical section failed or never began. Then the notification that led to it passes to the
    /// next waiter.
    bool has_failed = false;
};

/// Releases what a grant holds, waits on the condition no longer than the limit, and completes with the next grant. If
/// this throws, the grant keeps its lock.
void start_wait(const std::shared_ptr<condition_handle>& condition, grant& guard, time_limit limit,
                section_changes changes, lock_handler handler);

/// Notifies the first or all waiters of a condition. Without a handler, the result is ignored.
void start_notify(const std::shared_ptr<condition_handle>& condition, bool all,
                  count_handler handler);
void notify(const std::shared_ptr<condition_handle>& condition, bool all) noexcept;

/// Aborts this process's waits on a condition.
void forget(const std::shared_ptr<condition_handle>& condition) noexcept;

/// The fallback executor.
[[nodiscard]] boost::asio::any_io_executor executor_of(const condition_handle& condition) noexcept;

/// The user's name of a condition.
[[nodiscard]] const std::string& name_of(const condition_handle& condition) noexcept;

/// Adds units that no permit holds to a pool. The number that the handler receives has no meaning.
void start_add(const std::shared_ptr<lock_handle>& pool, std::int64_t units, count_handler handler);

/// Sets the capacity of a pool; otherwise likewise.
void start_resize(const std::shared_ptr<lock_handle>& pool, std::int64_t capacity,
                  count_handler handler);

/// Creates a pool. The result is 1 if it did not exist.
void start_create(const std::shared_ptr<lock_handle>& pool, count_handler handler);

/// Reads the number of available units of a pool.
void start_read(const std::shared_ptr<lock_handle>& pool, count_handler handler);

/// Completes the waiters of a lock with `operation_aborted`.
void forget(const std::shared_ptr<lock_handle>& lock) noexcept;

/// The fallback executor.
[[nodiscard]] boost::asio::any_io_executor executor_of(const lock_handle& lock) noexcept;

/// The user's name of a lock.
[[nodiscard]] const std::string& name_of(const lock_handle& lock) noexcept;

/// The position of a mutex or shared mutex in the order of async_lock_all().
[[nodiscard]] std::string_view order_of(const lock_handle& lock) noexcept;

/// Releases the lock that a token holds.
void start_leave(const std::shared_ptr<lock_handle>& lock, owner_token owner, done_handler handler);

}  // namespace turnstile::redis::detail

#endif
