// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_GATE_USER_HPP
#define TURNSTILE_TEST_CHAOS_GATE_USER_HPP

#include <chaos/client.hpp>
#include <chaos/gate_book.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <utility>

namespace turnstile::test::chaos {

/// A client's gates, and the workers that wait there.
class gate_user
{
public:
    /// @param number the client's number from 0 on; the first one opens and closes
    ///               the events.
    gate_user(client& who, course& run, gate_book& book, std::size_t number)
        : client_(who)
        , course_(run)
        , book_(book)
        , number_(number)
        , door_(who.session(), "door")
        , bell_(who.session(), "bell", event_reset::automatic)
        , meeting_(who.session(), "meeting", book.participants())
    {
        client_.employ("who waits for the door", [this](worker& self) { return pass(self); });
        client_.employ("who waits for the bell", [this](worker& self) { return hear(self); });
        client_.employ("who meets the others", [this](worker& self) { return meet(self); });
        // If the server forgot a latch, all participants would have to arrive again.
        if (book_.is_lasting())
            client_.employ("who waits at latches", [this](worker& self) { return gather(self); });
        if (number_ == 0)
        {
            client_.employ("who opens the door", [this](worker&) { return open(); }, true);
            client_.employ("who rings the bell", [this](worker&) { return ring(); }, true);
        }
    }
    gate_user(const gate_user&) = delete;
    gate_user& operator=(const gate_user&) = delete;

private:
    int roll(int least, int most) { return client_.roll(least, most); }

    asio::awaitable<void> pause(int longest_ms)
    {
        return client_.sleep(std::chrono::milliseconds(roll(0, longest_ms)));
    }

    // --- events ---------------------------------------------------------------------------------

    asio::awaitable<void> pass(worker& self)
    {
        while (!course_.is_over)
        {
            const auto closed = book_.closed_since();
            const time_limit limit = client_.roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [error] = co_await door_.async_wait(std::move(token));
            if (client_.conclude(error, limit, "door") == outcome::done)
            {
                book_.passed(closed);
                ++self.laps;
                client_.counts().done("events, manual");
            }
            co_await pause(20);
        }
        book_.waits_no_more();
    }

    asio::awaitable<void> hear(worker& self)
    {
        while (!course_.is_over)
        {
            const time_limit limit = client_.roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [error] = co_await bell_.async_wait(std::move(token));
            if (client_.conclude(error, limit, "bell") == outcome::done)
            {
                book_.heard();
                ++self.laps;
                client_.counts().done("events, automatic");
            }
        }
        book_.waits_no_more();
    }

    /// Sometimes closes the door at once; all waiters still pass.
    asio::awaitable<void> open()
    {
        while (book_.does_somebody_wait())
        {
            book_.opens();
            const auto [failed] = co_await door_.async_set(asio::as_tuple(asio::deferred));
            conclude(failed);
            co_await pause(roll(1, 2) == 1 ? 0 : 30);
            const auto [error] = co_await door_.async_reset(asio::as_tuple(asio::deferred));
            if (conclude(error))
                book_.is_closed();
            co_await pause(60);
        }
    }

    asio::awaitable<void> ring()
    {
        while (book_.does_somebody_wait())
        {
            book_.rings();
            const auto [error] = co_await bell_.async_set(asio::as_tuple(asio::deferred));
            conclude(error);
            co_await pause(20);
        }
    }

    bool conclude(const error_code& error)
    {
        return client_.conclude(error, client_.endless_patience(), "event") == outcome::done;
    }

    // --- the barrier ----------------------------------------------------------------------------

    asio::awaitable<void> meet(worker& self)
    {
        while (!course_.is_over)
        {
            book_.goes_to_meet(number_);
            // After a cancelled arrival, it would be unknown whether the others passed.
            const time_limit limit =
                book_.is_lasting() ? client_.endless_patience() : client_.roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [error] = co_await meeting_.async_arrive_and_wait(std::move(token));
            if (client_.conclude(error, limit, "barrier") == outcome::done)
            {
                book_.met(number_);
                ++self.laps;
                client_.counts().done("barriers");
            }
            co_await pause(30);
        }
        book_.stays_away(number_);
        const auto [error] =
            co_await meeting_.async_arrive_and_drop(asio::as_tuple(asio::deferred));
        conclude(error);
    }

    // --- latches --------------------------------------------------------------------------------

    asio::awaitable<void> gather(worker& self)
    {
        for (std::size_t round = 0; book_.joins(round); ++round)
        {
            redis::latch latch(client_.session(), fmt::format("latch {}", round),
                               gate_book::arrivals * book_.participants());
            // The latch opens only with the last arrivals.
            for (int i = 1; i <= gate_book::arrivals; ++i)
                co_await arrive(latch, i == gate_book::arrivals && roll(1, 2) == 1);
            while (!co_await is_through(latch))
            {
            }
            book_.has_opened(round);
            ++self.laps;
            client_.counts().done("latches");
            co_await pause(60);
        }
    }

    /// Arrives once, whether or not an answer comes.
    asio::awaitable<void> arrive(redis::latch& latch, bool waits)
    {
        error_code error;
        if (!waits)
        {
            const auto [e] = co_await latch.async_count_down(1, asio::as_tuple(asio::deferred));
            error = e;
        }
        else
        {
            const time_limit limit = client_.roll_patience();
            auto token = client::no_longer_than(limit);
            const auto [e] = co_await latch.async_arrive_and_wait(std::move(token));
            client_.conclude(e, limit, "latch");
            error = e;
        }
        if (error == turnstile::errc::over_release)
            client_.counts().violation("latch: an arrival has counted twice");
    }

    asio::awaitable<bool> is_through(redis::latch& latch)
    {
        const time_limit limit = client_.roll_patience();
        auto token = client::no_longer_than(limit);
        const auto [error] = co_await latch.async_wait(std::move(token));
        co_return client_.conclude(error, limit, "latch") == outcome::done;
    }

    client& client_;
    course& course_;
    gate_book& book_;
    const std::size_t number_;
    redis::event door_;
    redis::event bell_;
    redis::barrier meeting_;
};

}  // namespace turnstile::test::chaos

#endif
