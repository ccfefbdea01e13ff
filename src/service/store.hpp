// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_STORE_HPP
#define TURNSTILE_SERVICE_STORE_HPP

#include "service/message.hpp"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/async_semaphore.hpp>
#include <unordered_map>
#include <vector>

namespace turnstile::service {

/// How a request to the store ended.
enum class outcome
{
    done,
    /// There is no semaphore with that name.
    unknown,
    /// Not enough units.
    locked,
    /// The permit does not exist, has expired, or belongs to another semaphore.
    foreign,
    /// The value would exceed the largest one.
    overflow,
    /// There are too many waiters.
    crowded,
    /// The server is shutting down.
    closing,
};

/// The value of a semaphore after a request.
struct result
{
    outcome what = outcome::unknown;
    std::int64_t value = 0;
};

/// What a `down` received.
struct grant : result
{
    /// The id of the permit; empty if the units have no holder.
    std::string permit;
    /// The fencing token of the permit.
    std::uint64_t token = 0;
    /// Returns the units. Set if they were granted.
    std::function<void()> undo;
};

/// What a `down` wants.
struct demand
{
    /// The address of the client, for operators.
    std::string client;
    std::ptrdiff_t units = 1;
    /// How long to wait; not at all if it is zero.
    std::chrono::milliseconds wait{0};
    /// How long a permit lasts; no permit if it is zero.
    std::chrono::milliseconds lease{0};
};

/// A change of a semaphore, and perhaps of a permit. It replaces earlier changes of the same ones.
struct change
{
    std::string_view name;
    /// The value, including units that were granted to waiters whose requests were not answered yet. Nothing if the
    /// semaphore was removed, together with its permits.
    std::optional<std::int64_t> value;
    /// The permit that was granted, renewed or ended; empty if none was.
    std::string_view permit;
    /// The units of the permit; 0 if it has ended.
    std::int64_t units = 0;
    std::chrono::milliseconds lease{0};
    std::chrono::system_clock::time_point until;
    std::uint64_t token = 0;
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
    /// A permit ended, or a grant was returned.
    released,
    renewed,
};

/// A change as clients see it, with the state after it. The names of the enumerators are the names of the events.
struct event
{
    happening what = happening::value;
    std::string_view name;
    std::int64_t value = 0;
    std::size_t waiters = 0;
    std::size_t permits = 0;
    /// The units that were added, wanted, granted or returned.
    std::int64_t units = 0;
    /// The fencing token of the permit; 0 if there is none.
    std::uint64_t token = 0;
    /// How long the client waited, for happening::granted and happening::left.
    std::chrono::milliseconds waited{0};
    /// Why a permit ended, for happening::released.
    std::string_view reason;
};

/// One line of the list.
struct listed
{
    std::string_view name;
    std::int64_t value = 0;
    std::size_t waiters = 0;
    std::size_t permits = 0;
};

/// A waiter or a permit of a semaphore.
struct participant
{
    /// The address of the client. Empty after a restart, because the snapshot does not contain it.
    std::string client;
    std::int64_t units = 0;
    /// Since when the client waits, or how long ago the permit was granted. After a restart, since the last renewal.
    std::chrono::milliseconds age{0};
    /// How long the permit still lasts, and how long a lease is.
    std::chrono::milliseconds rest{0};
    std::chrono::milliseconds lease{0};
    /// The fencing token of the permit.
    std::uint64_t token = 0;
};

/// A semaphore with its first waiters and oldest permits, in order.
struct detailed
{
    listed state;
    std::vector<participant> waiters;
    std::vector<participant> permits;
};

/// Numbers for the metrics.
struct store_metrics
{
    std::size_t semaphores = 0;
    std::size_t waiters = 0;
    std::size_t permits = 0;
    std::uint64_t grants = 0;
    std::uint64_t withdrawn = 0;
    std::uint64_t undone = 0;
    std::uint64_t expired = 0;
};

/**
 * @brief The semaphores of a server, in memory.
 *
 * A semaphore is a @ref turnstile::basic_async_semaphore, which has the queue and decides the order. The store
 * adds names, values up to 2^53 - 1, and leased permits.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class store
{
public:
    /// The largest number of units of one request.
    static constexpr std::ptrdiff_t max_units = async_semaphore::max_capacity;

    store(boost::asio::io_context& context, std::size_t max_waiters);

    /// An id that cannot be guessed.
    static std::string new_id();

    /// False if the name exists.
    bool create(std::string_view name, std::int64_t value);

    [[nodiscard]] bool exists(std::string_view name) const;

    /// False if there is no such semaphore. Its waiters complete with outcome::unknown.
    bool remove(std::string_view name);

    [[nodiscard]] result value(std::string_view name) const;

    /// Adds units and grants them to waiters, in order.
    result up(std::string_view name, std::int64_t units);

    /// Releases the units of a permit.
    result up(std::string_view name, const std::string& permit);

    /// Lets a permit last for @p lease from now on, or for as long as at first.
    result renew(std::string_view name, const std::string& permit,
                 std::optional<std::chrono::milliseconds> lease);

    /// Releases the permit with that fencing token, as an operator does whose client is stuck.
    result free(std::string_view name, std::uint64_t token);

    /// Takes units if they are available and there are no waiters. Ignores demand::wait.
    grant try_down(std::string_view name, const demand& wanted);

    /// Waits for units. FIFO. If it is cancelled, the waiter leaves the queue.
    awaitable<grant> down(std::string name, demand wanted);

    /// The semaphores whose names are greater than @p after, in the order of their names.
    [[nodiscard]] std::vector<listed> list(std::string_view after, std::size_t limit) const;

    /// Nothing if there is no such semaphore.
    [[nodiscard]] std::optional<detailed> detail(std::string_view name, std::size_t limit) const;

    [[nodiscard]] store_metrics metrics() const;

    /// Waiters, and later requests to wait, complete with outcome::closing.
    void close();

    /// Calls @p recorder with each later change, before the change is answered.
    void record_changes(std::function<void(const change&)> recorder);

    /// Calls @p observer after each later change.
    void observe(std::function<void(const event&)> observer);

    /// Calls @p reader with the present semaphores, and then with the present permits.
    void describe(const std::function<void(const change&)>& reader) const;

    /// Creates a semaphore or a permit that @ref describe has named. A permit that has expired meanwhile ends when the
    /// context runs.
    void restore(const change& stored);

    /// The fencing token of the last permit.
    [[nodiscard]] std::uint64_t last_token() const noexcept { return last_token_; }

    /// Later permits have tokens above @p token.
    void skip_tokens(std::uint64_t token) noexcept;

private:
    using semaphore_type = basic_async_semaphore<executor, unsynchronized>;
    using clock = std::chrono::steady_clock;

    struct waiter
    {
        std::string client;
        std::int64_t units = 0;
        clock::time_point since;
    };

    struct entry
    {
        entry(const executor& ex, std::int64_t value);

        [[nodiscard]] std::int64_t value() const noexcept;
        void add(std::int64_t units);
        void refill();

        semaphore_type semaphore;
        /// The key in the map, until the entry is removed.
        std::string_view name;
        /// The value, including units that the engine has granted to waiters that have not resumed.
        std::int64_t uncollected_value;
        /// Units beyond the capacity of the semaphore. Not 0 only if all of its units are available.
        std::int64_t reserve;
        /// In the order of the queue of the semaphore.
        std::list<waiter> waiters;
        /// The ids of the permits, which are keys of the leases, by their tokens.
        std::map<std::uint64_t, std::string_view> permits;
        bool removed = false;
    };

    using deadlines = std::multimap<clock::time_point, std::string>;

    struct lease_record
    {
        std::shared_ptr<entry> semaphore;
        std::int64_t units = 0;
        std::chrono::milliseconds lease{0};
        deadlines::iterator deadline;
        std::uint64_t token = 0;
        clock::time_point since;
        std::string client;
    };

    using leases = std::unordered_map<std::string, lease_record>;

    [[nodiscard]] std::shared_ptr<entry> find(std::string_view name) const;
    [[nodiscard]] leases::iterator find_permit(const std::shared_ptr<entry>& semaphore,
                                               const std::string& permit);
    grant granted(const std::shared_ptr<entry>& semaphore, const demand& wanted,
                  std::chrono::milliseconds waited = {});
    void add_permit(const std::string& id, const std::shared_ptr<entry>& semaphore,
                    std::int64_t units, std::chrono::milliseconds lease, clock::time_point deadline,
                    std::uint64_t token, std::string client);
    void end_permit(leases::iterator permit);
    void release(leases::iterator permit, std::string_view reason);
    void record(const entry& semaphore, std::string_view permit = {}) const;
    void tell(happening what, const entry& semaphore, std::int64_t units, std::uint64_t token = 0,
              std::chrono::milliseconds waited = {}, std::string_view reason = {}) const;
    [[nodiscard]] change described(const entry& semaphore, std::string_view permit) const;
    void expire();
    void await_expiry();

    executor executor_;
    std::size_t max_waiters_;
    bool closing_ = false;
    std::map<std::string, std::shared_ptr<entry>, std::less<>> semaphores_;
    leases leases_;
    deadlines deadlines_;
    boost::asio::steady_timer timer_;
    std::uint64_t last_token_;
    store_metrics counts_;
    std::function<void(const change&)> recorder_;
    std::function<void(const event&)> observer_;
};

}  // namespace turnstile::service

#endif
