// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_UNIT_USER_HPP
#define TURNSTILE_TEST_CHAOS_UNIT_USER_HPP

#include <chaos/client.hpp>
#include <chaos/tally.hpp>
#include <chrono>
#include <cstddef>
#include <fmt/format.h>
#include <mutex>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

namespace turnstile::test::chaos {

/**
 * @brief Checks units that are taken for good and added again. On a server that keeps its memory, no more are
 *        outside than there are, and all are back at the end.
 */
class unit_book
{
public:
    static constexpr int capacity = 5;

    unit_book(std::string name, bool is_lasting, tally& counts)
        : name_(std::move(name))
        , is_lasting_(is_lasting)
        , counts_(counts)
    {
    }

    [[nodiscard]] bool is_lasting() const { return is_lasting_; }

    /// A worker has received the answer that it took units.
    void taken(int units)
    {
        const std::lock_guard lock(mutex_);
        out_ += units;
        if (is_lasting_ && out_ > capacity + doubtful_)
            complain(fmt::format("{} are out, and {} perhaps", out_, doubtful_));
    }

    /// It is unknown whether a worker took units, or has added its units. It will add them, perhaps for the second time.
    void perhaps_taken(int units)
    {
        const std::lock_guard lock(mutex_);
        doubtful_ += units;
    }

    /// Called before units are added.
    void adds(int units)
    {
        const std::lock_guard lock(mutex_);
        out_ -= units;
    }

    /// Fewer units were outside than a worker wanted to add.
    void refused() const
    {
        const std::lock_guard lock(mutex_);
        if (is_lasting_ && doubtful_ == 0)
            complain("some were refused that had been taken");
    }

    /// Checks the total when all workers have ended.
    void inspect(std::ptrdiff_t available) const
    {
        const std::lock_guard lock(mutex_);
        if (is_lasting_ && available != capacity)
            complain(fmt::format("{} are there in the end", available));
    }

private:
    void complain(const std::string& what) const
    {
        counts_.violation(fmt::format("{}, of {} units: {}", name_, capacity, what));
    }

    const std::string name_;
    const bool is_lasting_;
    tally& counts_;
    mutable std::mutex mutex_;
    int out_ = 0;
    int doubtful_ = 0;
};

/// A client's workers that take units for good, and add them again after a while.
class unit_user
{
public:
    unit_user(client& who, course& run, unit_book& book)
        : client_(who)
        , course_(run)
        , book_(book)
        , units_(who.session(), "units", unit_book::capacity)
    {
    }
    unit_user(const unit_user&) = delete;
    unit_user& operator=(const unit_user&) = delete;

    void employ()
    {
        for (int i = 0; i != takers; ++i)
            client_.employ("who takes units", [this](worker& self) { return take(self); });
        // A server that forgets may remember that units were taken, and not that they were added.
        if (!book_.is_lasting())
            client_.employ("who adds units", [this](worker&) { return add_always(); }, true);
    }

    void employ_inspector()
    {
        client_.employ("who counts units", [this](worker&) { return inspect(); });
    }

private:
    asio::awaitable<void> take(worker& self)
    {
        while (!course_.is_over)
        {
            const int units = client_.roll(1, unit_book::capacity);
            const time_limit limit = roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [error] = co_await units_.async_take(units, std::move(token));
            const outcome ended = conclude(error, limit);
            if (ended == outcome::doubtful)
            {
                book_.perhaps_taken(units);
                co_await add(units);
            }
            if (ended != outcome::done)
            {
                // After a refusal, waits before the next attempt.
                co_await client_.sleep(std::chrono::milliseconds(client_.roll(0, 5)));
                continue;
            }
            book_.taken(units);
            co_await client_.sleep(std::chrono::milliseconds(client_.roll(0, 5)));
            book_.adds(units);
            co_await add(units);
            ++self.laps;
            client_.counts().done("units taken");
        }
    }

    /// Adds units until it is certain that they are there. A part of them may be there already, because others that were
    /// in doubt were added twice.
    asio::awaitable<void> add(int units)
    {
        int at_once = units;
        while (units > 0)
        {
            const auto [error] =
                co_await units_.async_release(at_once, asio::as_tuple(asio::deferred));
            if (error == turnstile::errc::over_release)
            {
                book_.refused();
                if (std::exchange(at_once, 1) == 1)
                    co_return;
                continue;
            }
            const outcome ended = conclude(error, client_.endless_patience());
            if (ended == outcome::done)
            {
                units -= at_once;
                continue;
            }
            if (ended == outcome::doubtful)
                book_.perhaps_taken(at_once);
            co_await client_.sleep(std::chrono::milliseconds(20));
        }
    }

    /// Every other take has a short limit.
    patience roll_patience()
    {
        if (client_.roll(1, 2) == 1)
            return client_.endless_patience();
        return {std::chrono::milliseconds(client_.roll(0, 40)), client_.counts()};
    }

    /// An error for a missing permission means that nothing was done.
    outcome conclude(const error_code& error, const time_limit& limit)
    {
        if (error == redis::errc::missing_permission)
        {
            client_.counts().done("units refused");
            return outcome::nothing;
        }
        return client_.conclude(error, limit, "units");
    }

    asio::awaitable<void> add_always()
    {
        while (client_.is_busy())
        {
            co_await add(1);
            co_await client_.sleep(std::chrono::milliseconds(client_.roll(20, 100)));
        }
    }

    asio::awaitable<void> inspect()
    {
        const auto [error, available] =
            co_await units_.async_available(asio::as_tuple(asio::deferred));
        if (client_.conclude(error, client_.endless_patience(), "units") == outcome::done)
            book_.inspect(available);
    }

    static constexpr int takers = 3;

    client& client_;
    course& course_;
    unit_book& book_;
    redis::async_semaphore units_;
};

}  // namespace turnstile::test::chaos

#endif
