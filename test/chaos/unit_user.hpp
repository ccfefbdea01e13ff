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
#include <utility>

namespace turnstile::test::chaos {

/**
 * @brief What must be so of units that are taken for good and added again: of a server that does not forget, no more
 *        are out than there are, and in the end all are back.
 */
class unit_book
{
public:
    static constexpr int capacity = 3;

    unit_book(std::string name, bool is_lasting, tally& counts)
        : name_(std::move(name))
        , is_lasting_(is_lasting)
        , counts_(counts)
    {
    }

    [[nodiscard]] bool is_lasting() const { return is_lasting_; }

    /// Somebody was told that it has taken some.
    void taken(int units)
    {
        const std::lock_guard lock(mutex_);
        out_ += units;
        if (is_lasting_ && out_ > capacity)
            complain(fmt::format("{} are out", out_));
    }

    /// Nobody knows whether somebody has taken some.
    void perhaps_taken(int units)
    {
        const std::lock_guard lock(mutex_);
        doubtful_ += units;
    }

    /// Is said before they are added.
    void adds(int units)
    {
        const std::lock_guard lock(mutex_);
        out_ -= units;
    }

    /// There was no room for them.
    void refused() const
    {
        if (is_lasting_)
            complain("some were refused that had been taken");
    }

    /// When all have ended.
    void inspect(std::ptrdiff_t available) const
    {
        const std::lock_guard lock(mutex_);
        if (is_lasting_ && (available > capacity || available < capacity - doubtful_))
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
            const bool is_sticky = client_.roll(1, 2) == 1;
            const auto mode = is_sticky ? redis::take_mode::sticky : redis::take_mode::confirmed;
            const patience limit = client_.roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [error] = co_await units_.async_take(units, mode, std::move(token));
            const outcome ended = client_.conclude(error, limit, "units");
            if (ended == outcome::doubtful)
                book_.perhaps_taken(units);
            if (ended != outcome::done)
                continue;
            book_.taken(units);
            co_await client_.sleep(std::chrono::milliseconds(client_.roll(0, 5)));
            book_.adds(units);
            co_await add(units);
            ++self.laps;
            client_.counts().done(is_sticky ? "units taken, sticky" : "units taken");
        }
    }

    asio::awaitable<void> add(int units)
    {
        const auto [error] = co_await units_.async_release(units, asio::as_tuple(asio::deferred));
        if (error == turnstile::errc::over_release)
            book_.refused();
        else
            client_.conclude(error, client_.endless_patience(), "units that are added");
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
        const auto [error, available] = co_await units_.async_value(asio::as_tuple(asio::deferred));
        if (client_.conclude(error, client_.endless_patience(), "units") == outcome::done)
            book_.inspect(available);
    }

    client& client_;
    course& course_;
    unit_book& book_;
    redis::async_semaphore units_;
};

}  // namespace turnstile::test::chaos

#endif
