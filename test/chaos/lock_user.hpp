// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_LOCK_USER_HPP
#define TURNSTILE_TEST_CHAOS_LOCK_USER_HPP

#include <chaos/client.hpp>
#include <chaos/oracle.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <support/any_guard.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/// The kinds of objects. They alternate by number.
enum class kind
{
    mutex,
    semaphore,
    shared_mutex,
};

inline kind kind_of(std::size_t number)
{
    return static_cast<kind>(number % 3);
}

inline constexpr int semaphore_capacity = 5;
/// More than the number of readers.
inline constexpr int all_readers = 1'000'000;

inline int capacity_of(kind what)
{
    return what == kind::mutex ? 1 : what == kind::semaphore ? semaphore_capacity : all_readers;
}

/// A client's locks and pools, and the workers that use them.
class lock_user
{
public:
    /// @param cohort the client's limit of hand-overs within its cohort.
    lock_user(client& who, course& run, std::vector<std::unique_ptr<oracle>>& oracles, int workers,
              std::uint32_t cohort)
        : client_(who)
        , course_(run)
        , oracles_(oracles)
    {
        for (std::size_t i = 0; i != oracles_.size(); ++i)
            make(i, cohort);
        for (int i = 0; i != workers; ++i)
            client_.employ("who goes in and out", [this](worker& self) { return work(self); });
        client_.employ("who rings the bells", [this](worker&) { return ring(); }, true);
    }
    lock_user(const lock_user&) = delete;
    lock_user& operator=(const lock_user&) = delete;

    /// Without workers: checks that all permits have been released.
    lock_user(client& who, course& run, std::vector<std::unique_ptr<oracle>>& oracles)
        : client_(who)
        , course_(run)
        , oracles_(oracles)
    {
        for (std::size_t i = 0; i != oracles_.size(); ++i)
            make(i, 0);
        client_.employ("who counts permits", [this](worker&) { return inspect(); });
    }

private:
    /// A permit whose release was lost is free when its lease has expired.
    asio::awaitable<void> inspect()
    {
        const time_limit limit = client_.endless_patience();
        for (const auto& each : semaphores_)
        {
            std::ptrdiff_t available = each ? -1 : semaphore_capacity;
            while (available != semaphore_capacity && !limit.is_exhausted(client_.counts()))
            {
                const auto [error, seen] =
                    co_await each->async_available(asio::as_tuple(asio::deferred));
                if (!error)
                    available = seen;
                co_await client_.sleep(std::chrono::milliseconds(50));
            }
            if (available != semaphore_capacity)
                client_.counts().violation(
                    fmt::format("{}: {} of {} units are available in the end",
                                name_of(static_cast<std::size_t>(&each - semaphores_.data())),
                                available, semaphore_capacity));
        }
    }

    void make(std::size_t number, std::uint32_t cohort)
    {
        const std::string name = fmt::format("lock {}", number);
        redis::session& session = client_.session();
        mutexes_.push_back(nullptr);
        bells_.push_back(nullptr);
        semaphores_.push_back(nullptr);
        shared_mutexes_.push_back(nullptr);
        switch (kind_of(number))
        {
        case kind::mutex:
            mutexes_.back() = std::make_unique<redis::async_mutex>(
                session, name, redis::mutex_options().cohort(cohort));
            bells_.back() = std::make_unique<redis::condition>(*mutexes_.back(), "bell");
            break;
        case kind::semaphore:
            semaphores_.back() =
                std::make_unique<redis::async_semaphore>(session, name, semaphore_capacity);
            break;
        case kind::shared_mutex:
            shared_mutexes_.back() = std::make_unique<redis::shared_mutex>(session, name);
            break;
        }
    }

    int roll(int least, int most) { return client_.roll(least, most); }

    asio::awaitable<void> work(worker& self)
    {
        while (!course_.is_over)
        {
            const auto which =
                static_cast<std::size_t>(roll(0, static_cast<int>(oracles_.size()) - 1));
            bool is_good = false;
            switch (kind_of(which))
            {
            case kind::mutex:
                is_good = co_await use_mutex(which);
                break;
            case kind::semaphore:
                is_good = co_await use_semaphore(which);
                break;
            case kind::shared_mutex:
                is_good = co_await use_shared_mutex(which);
                break;
            }
            if (is_good)
                ++self.laps;
        }
    }

    asio::awaitable<bool> use_mutex(std::size_t which)
    {
        const auto start = [mutex = mutexes_[which].get()](auto token)
        { return mutex->async_lock(std::move(token)); };
        any_guard guard = co_await attempt(which, start);
        if (!guard)
            co_return false;
        if (roll(1, 4) != 1)
            co_return co_await section(which, guard, share(), "sections with a mutex");
        co_await stay(which, guard, share());
        co_return co_await listen(which, guard);
    }

    /// Waits on a condition, and enters again.
    asio::awaitable<bool> listen(std::size_t which, any_guard& guard)
    {
        const std::uint64_t before = guard.fence();
        const time_limit limit = client_.roll_patience();
        auto token = client::no_longer_than(limit);
        const auto [error] = co_await bells_[which]->async_wait(guard.mutex(), std::move(token));
        const auto ended = client_.conclude(error, limit, name_of(which) + ", asleep");
        if (!guard)
        {
            if (ended == outcome::done)
                client_.counts().violation(name_of(which) + ": awake without the lock");
            co_return false;
        }
        oracles_[which]->granted(guard.fence());
        if (guard.fence() <= before)
            client_.counts().violation(name_of(which) + ": awake with a fence that is not higher");
        co_return co_await section(which, guard, share(), "sections after a sleep");
    }

    /// Notifies all waiters, as long as there may be any.
    asio::awaitable<void> ring()
    {
        while (client_.is_busy())
        {
            for (const auto& bell : bells_)
                if (bell)
                {
                    auto token = asio::as_tuple(asio::deferred);
                    const auto [error] = co_await bell->async_notify_all(std::move(token));
                    client_.conclude(error, client_.endless_patience(), "a bell");
                }
            co_await client_.sleep(std::chrono::milliseconds(roll(10, 60)));
        }
    }

    asio::awaitable<bool> use_semaphore(std::size_t which)
    {
        share wanted;
        wanted.units = roll(1, semaphore_capacity);
        wanted.exclusive = false;
        const auto start = [semaphore = semaphores_[which].get(), units = wanted.units](auto token)
        { return semaphore->async_acquire(units, std::move(token)); };
        any_guard guard = co_await attempt(which, start);
        if (!guard)
            co_return false;
        co_return co_await section(which, guard, wanted, "sections with a permit");
    }

    asio::awaitable<bool> use_shared_mutex(std::size_t which)
    {
        redis::shared_mutex* const mutex = shared_mutexes_[which].get();
        const int mode = roll(1, 6);
        share wanted;
        wanted.exclusive = false;
        if (mode == 1)
        {
            const auto start = [mutex](auto token) { return mutex->async_lock(std::move(token)); };
            wanted.units = all_readers;
            wanted.exclusive = true;
            any_guard guard = co_await attempt(which, start);
            if (!guard)
                co_return false;
            co_return co_await section(which, guard, wanted, "sections that write");
        }
        if (mode == 2)
        {
            const auto start = [mutex](auto token)
            { return mutex->async_lock_upgrade(std::move(token)); };
            wanted.rights = 1;
            any_guard guard = co_await attempt(which, start);
            if (!guard)
                co_return false;
            co_return co_await upgradable_section(which, guard, wanted);
        }
        const auto start = [mutex](auto token)
        { return mutex->async_lock_shared(std::move(token)); };
        any_guard guard = co_await attempt(which, start);
        if (!guard)
            co_return false;
        co_return co_await section(which, guard, wanted, "sections that read");
    }

    /// Waits for the lock; the guard is empty on failure.
    template <class Start>
    asio::awaitable<any_guard> attempt(std::size_t which, Start start)
    {
        const auto begun = std::chrono::steady_clock::now();
        const time_limit limit = client_.roll_patience();
        auto token = client::no_longer_than(limit);
        auto [error, guard] = co_await start(std::move(token));
        client_.counts().waited(std::chrono::steady_clock::now() - begun);
        if (client_.conclude(error, limit, name_of(which)) == outcome::doubtful)
            co_await client_.sleep(std::chrono::milliseconds(10));
        any_guard result(std::move(guard));
        if (result)
            oracles_[which]->granted(result.fence());
        co_return result;
    }

    /// Holds the lock for a while and releases it. Returns whether that succeeded.
    asio::awaitable<bool> section(std::size_t which, any_guard& guard, share has, const char* what)
    {
        co_await stay(which, guard, has);
        const auto [error] = co_await guard.release(asio::as_tuple(asio::use_awaitable));
        if (error)
            ++client_.counts().lost;
        else
            client_.counts().done(what);
        co_return !error;
    }

    asio::awaitable<void> stay(std::size_t which, any_guard& guard, share has)
    {
        oracle::visit visit(*oracles_[which], guard, has);
        for (int i = roll(1, 3); i > 0; --i)
        {
            visit.check();
            co_await client_.sleep(std::chrono::milliseconds(roll(0, 4)));
            if (kind_of(which) == kind::semaphore && has.units > 1 && roll(1, 3) == 1)
            {
                visit.shrink();
                --has.units;
            }
        }
    }

    /// Reads, and then perhaps upgrades and writes.
    asio::awaitable<bool> upgradable_section(std::size_t which, any_guard& guard, share has)
    {
        if (roll(1, 2) == 1)
        {
            co_await stay(which, guard, has);
            const auto start =
                [mutex = shared_mutexes_[which].get(), reader = &guard.upgradable()](auto token)
            { return mutex->async_upgrade(*reader, std::move(token)); };
            any_guard upgraded = co_await attempt(which, start);
            if (upgraded)
            {
                has.units = all_readers;
                has.exclusive = true;
                co_return co_await section(which, upgraded, has, "sections that are upgraded");
            }
        }
        co_return co_await section(which, guard, has, "sections that read");
    }

    static std::string name_of(std::size_t which) { return fmt::format("lock {}", which); }

    client& client_;
    course& course_;
    std::vector<std::unique_ptr<oracle>>& oracles_;
    // By number; null for objects of another kind.
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes_;
    std::vector<std::unique_ptr<redis::condition>> bells_;
    std::vector<std::unique_ptr<redis::async_semaphore>> semaphores_;
    std::vector<std::unique_ptr<redis::shared_mutex>> shared_mutexes_;
};

}  // namespace turnstile::test::chaos

#endif
