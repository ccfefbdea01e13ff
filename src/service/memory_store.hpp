// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_MEMORY_STORE_HPP
#define TURNSTILE_SERVICE_MEMORY_STORE_HPP

#include "service/store.hpp"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
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

namespace turnstile::service {

/// The state of a semaphore, and perhaps of a permit, for a snapshot. It replaces their earlier states.
struct stored_state
{
    std::string_view name;
    /// The value, including units that were granted to waiters whose requests were not answered yet. Empty if the
    /// semaphore and its permits were removed.
    std::optional<std::int64_t> value;
    /// The id of the permit that was granted, renewed or ended; empty if none was.
    std::string_view permit;
    /// The units of the permit; 0 if it has ended.
    std::int64_t units = 0;
    std::chrono::milliseconds lease{0};
    std::chrono::system_clock::time_point until;
    std::uint64_t token = 0;
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
class memory_store final : public store
{
public:
    memory_store(boost::asio::io_context& context, std::size_t max_waiters);

    [[nodiscard]] bool is_shared() const override { return false; }
    awaitable<result> create(std::string_view name, std::int64_t value) override;
    awaitable<result> remove(std::string_view name) override;
    awaitable<result> value(std::string_view name) override;
    awaitable<result> up(std::string_view name, std::int64_t units) override;
    awaitable<result> release(std::string_view name, const std::string& permit) override;
    awaitable<result> renew(std::string_view name, const std::string& permit,
                            std::optional<std::chrono::milliseconds> lease) override;
    awaitable<result> free(std::string_view name, std::uint64_t token) override;
    awaitable<grant> try_down(std::string_view name, const down_request& wanted) override;
    awaitable<grant> down(std::string_view name, const down_request& wanted) override;
    awaitable<listed_page> list(std::string_view after, std::size_t limit) override;
    awaitable<detailed> detail(std::string_view name, std::size_t limit) override;
    awaitable<result> check() override;
    awaitable<store_metrics> metrics() override;
    void close() override;

    /// Calls @p recorder with the new state at each later change, before the change is answered.
    void record_changes(std::function<void(const stored_state&)> recorder);

    /// Calls @p reader with the present semaphores, and then with the present permits.
    void describe(const std::function<void(const stored_state&)>& reader) const;

    /// Creates a semaphore or a permit that @ref describe has named. A permit that has expired meanwhile ends when the
    /// context runs.
    void restore(const stored_state& stored);

    /// The fencing token of the last permit.
    [[nodiscard]] std::uint64_t last_token() const noexcept { return last_token_; }

    /// Later permits have tokens above @p token.
    void skip_tokens(std::uint64_t token) noexcept;

private:
    using semaphore_type = basic_async_semaphore<executor, unsynchronized>;
    using clock = redis::lease_clock;

    struct waiter
    {
        std::string client;
        std::int64_t units = 0;
        clock::time_point since;
    };

    struct semaphore_record
    {
        semaphore_record(const executor& ex, std::int64_t value);

        [[nodiscard]] std::int64_t value() const noexcept;
        void add(std::int64_t units);
        void refill();

        semaphore_type semaphore;
        /// The key in the map; empty after the semaphore was removed.
        std::string_view name;
        /// The value, including units that the engine has granted to waiters that have not resumed.
        std::int64_t value_with_undelivered;
        /// Units beyond the capacity of the semaphore; 0 unless all its units are available.
        std::int64_t reserve;
        /// In the order of the queue of the semaphore.
        std::list<waiter> waiters;
        /// The ids of the permits, which are keys of the leases, by their tokens.
        std::map<std::uint64_t, std::string_view> permits;
        /// The units of the permits.
        std::int64_t leased = 0;
    };

    using deadlines = std::multimap<clock::time_point, std::string>;

    struct lease_record
    {
        std::shared_ptr<semaphore_record> semaphore;
        std::int64_t units = 0;
        std::chrono::milliseconds lease{0};
        deadlines::iterator deadline;
        std::uint64_t token = 0;
        clock::time_point since;
        std::string client;
    };

    using leases = std::unordered_map<std::string, lease_record>;

    bool add_semaphore(std::string_view name, std::int64_t value);
    [[nodiscard]] std::shared_ptr<semaphore_record> find(std::string_view name);
    [[nodiscard]] leases::iterator find_permit(const std::shared_ptr<semaphore_record>& semaphore,
                                               const std::string& permit);
    grant make_grant(const std::shared_ptr<semaphore_record>& semaphore, const down_request& wanted,
                     std::chrono::milliseconds waited = {});
    void add_permit(const std::string& id, const std::shared_ptr<semaphore_record>& semaphore,
                    std::int64_t units, std::chrono::milliseconds lease, clock::time_point deadline,
                    std::uint64_t token, std::string client);
    void end_permit(leases::iterator permit);
    void end_permit(leases::iterator permit, std::string_view reason);
    void report_change(const semaphore_record& semaphore, const event& made,
                       std::string_view permit = {}) const;
    void publish(const semaphore_record& semaphore, event made) const;
    [[nodiscard]] stored_state described(const semaphore_record& semaphore,
                                         std::string_view permit) const;
    void expire();
    void await_expiry();

    executor executor_;
    std::size_t max_waiters_;
    bool closing_ = false;
    std::map<std::string, std::shared_ptr<semaphore_record>, std::less<>> semaphores_;
    leases leases_;
    deadlines deadlines_;
    boost::asio::basic_waitable_timer<clock, boost::asio::wait_traits<clock>, executor> timer_;
    std::uint64_t last_token_;
    store_metrics counts_;
    std::uint64_t expired_ = 0;
    std::function<void(const stored_state&)> recorder_;
};

}  // namespace turnstile::service

#endif
