// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_STORE_HPP
#define TURNSTILE_SERVICE_STORE_HPP

#include "service/message.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/redis/listed_semaphore.hpp>
#include <utility>
#include <vector>

namespace turnstile::service {

/// How a request to the store ended.
enum class outcome
{
    done,
    /// There is no semaphore with that name.
    missing,
    /// There is a semaphore with that name already.
    exists,
    /// Too few units are available, or there are waiters. A wait that ends without a grant has this outcome, too.
    busy,
    /// The permit does not exist, has expired, or belongs to another semaphore.
    unheld,
    /// The value would exceed the largest one, which is result::value.
    overflow,
    /// There are too many waiters.
    crowded,
    /// The server is shutting down.
    closing,
    /// The storage cannot be reached, or has not answered.
    unavailable,
};

/// The value of a semaphore after a request.
struct result
{
    outcome what = outcome::missing;
    /// With outcome::overflow, the largest value.
    std::int64_t value = 0;
    /// Why the storage is unavailable.
    std::string reason{};
};

/// The result of a `down`.
struct grant : result
{
    /// The id of the permit; empty if the units have no holder.
    std::string permit{};
    /// The fencing token of the permit.
    std::uint64_t token = 0;
    /// The time at which the lease of the permit began, or an earlier one.
    redis::lease_clock::time_point begin{};
    /// Releases the units, because the client has not received the grant. Empty if nothing was granted.
    std::function<void()> undo{};
};

/// The request of a `down`.
struct down_request
{
    /// The address of the client, for operators.
    std::string client;
    std::ptrdiff_t units = 1;
    /// How long to wait; not at all if it is zero.
    std::chrono::milliseconds wait{0};
    /// How long a permit lasts; no permit if it is zero.
    std::chrono::milliseconds lease{0};
};

/// The kinds of an @ref event.
enum class happening
{
    created,
    deleted,
    /// Units were added that belonged to no permit.
    value,
    /// A client joined the queue.
    waiting,
    /// A client left the queue without a grant.
    left,
    granted,
    /// A permit ended, or a grant was undone because its client had not received it.
    released,
    renewed,
    /// In a shared store: another process changed the semaphore, or a lease expired.
    changed,
};

/// A change as clients see it, with the state after it. The names of the enumerators are the names of the events.
struct event
{
    happening what = happening::value;
    std::string_view name{};
    std::int64_t value = 0;
    std::size_t waiters = 0;
    std::size_t permits = 0;
    /// The units that were added, requested, granted or released.
    std::int64_t units = 0;
    /// The fencing token of the permit; 0 if there is none.
    std::uint64_t token = 0;
    /// How long the client waited, for happening::granted and happening::left.
    std::chrono::milliseconds waited{0};
    /// Why a permit ended, for happening::released.
    std::string_view reason{};
};

/// A page of the list. The outcome is outcome::done or outcome::unavailable.
struct listed_page : result
{
    std::vector<redis::listed_semaphore> semaphores{};
    /// The name after which the next page begins; nothing on the last page.
    std::optional<std::string> next{};
};

/// A semaphore with its first waiters and oldest permits, in order. The outcome is outcome::done, outcome::missing or
/// outcome::unavailable.
struct detailed : result
{
    redis::listed_semaphore state{};
    /// Without Redis, each has the address of its client in place of a session.
    std::vector<redis::listed_waiter> waiters{};
    /// A permit of a snapshot has no client, and its time since the grant is that since its last renewal before the
    /// restart.
    std::vector<redis::listed_permit> permits{};
};

/// A number for Prometheus. The prefix `turnstile_` is no part of the name.
struct metric
{
    std::string_view name;
    std::string_view type;
    std::string_view help;
    std::uint64_t number = 0;
};

/// Numbers for the metrics. A store leaves out those that it does not know.
struct store_metrics
{
    std::optional<std::size_t> semaphores;
    std::size_t waiters = 0;
    std::optional<std::size_t> permits;
    std::uint64_t grants = 0;
    std::uint64_t withdrawn = 0;
    std::uint64_t undone = 0;
    std::optional<std::uint64_t> expired;
    /// Those of the storage itself.
    std::vector<metric> others;
};

/**
 * @brief The semaphores of a server: names, values, and leased permits.
 *
 * Arguments that are views have to live until the operation ends.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class store
{
public:
    /// The largest number of units of one request.
    static constexpr std::int64_t max_units = async_semaphore::max_capacity;

    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store() = default;

    /// Whether other processes change the semaphores, too, and operations take time.
    [[nodiscard]] virtual bool is_shared() const = 0;

    /// Creates a semaphore. If the name exists, the outcome is outcome::exists, and nothing changes. With
    /// outcome::overflow, the name may exist, too.
    virtual awaitable<result> create(std::string_view name, std::int64_t value) = 0;

    /// Removes a semaphore and its permits. Its waiters complete with outcome::missing.
    virtual awaitable<result> remove(std::string_view name) = 0;

    virtual awaitable<result> value(std::string_view name) = 0;

    /// Adds units and grants them to waiters, in order.
    virtual awaitable<result> up(std::string_view name, std::int64_t units) = 0;

    /// Releases the units of a permit.
    virtual awaitable<result> release(std::string_view name, const std::string& permit) = 0;

    /// Renews a permit for @p lease, or without one for its former lease.
    virtual awaitable<result> renew(std::string_view name, const std::string& permit,
                                    std::optional<std::chrono::milliseconds> lease) = 0;

    /// Releases the permit with that fencing token, for an operator, if its client is stuck.
    virtual awaitable<result> free(std::string_view name, std::uint64_t token) = 0;

    /// Acquires units if they are available and there are no waiters. Ignores down_request::wait.
    virtual awaitable<grant> try_down(std::string_view name, const down_request& wanted) = 0;

    /// Waits for units. FIFO. If it is cancelled, the waiter leaves the queue.
    virtual awaitable<grant> down(std::string_view name, const down_request& wanted) = 0;

    /// The semaphores whose names are greater than @p after, in the order of their names.
    virtual awaitable<listed_page> list(std::string_view after, std::size_t limit) = 0;

    virtual awaitable<detailed> detail(std::string_view name, std::size_t limit) = 0;

    /// outcome::done if the storage can be reached.
    virtual awaitable<result> check() = 0;

    virtual awaitable<store_metrics> metrics() = 0;

    /// Waiters, and later requests to wait, complete with outcome::closing.
    virtual void close() = 0;

    /// Calls @p observer after each later change by this process, unless @p is_watched is false.
    void observe(std::function<void(const event&)> observer, std::function<bool()> is_watched)
    {
        observer_ = std::move(observer);
        is_watched_ = std::move(is_watched);
    }

protected:
    /// Whether an observer wants events.
    [[nodiscard]] bool is_watched() const { return observer_ && is_watched_(); }

    void publish(const event& made) const
    {
        if (is_watched())
            observer_(made);
    }

private:
    std::function<void(const event&)> observer_;
    std::function<bool()> is_watched_;
};

}  // namespace turnstile::service

#endif
