// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_CLIENT_HPP
#define TURNSTILE_TEST_CHAOS_CLIENT_HPP

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chaos/oracle.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <random>
#include <support/any_guard.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <vector>

namespace turnstile::test::chaos {

namespace asio = boost::asio;

/// The kinds of things whose names are numbers take turns.
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
/// More than there are readers.
inline constexpr int all_readers = 1'000'000;

inline int capacity_of(kind what)
{
    return what == kind::mutex ? 1 : what == kind::semaphore ? semaphore_capacity : all_readers;
}

/// A session with a proxy of its own, and workers that go in and out of everything.
class client
{
public:
    client(std::uint16_t server_port, std::vector<std::unique_ptr<oracle>>& oracles, tally& counts,
           int workers, unsigned seed)
        : proxy(server_port)
        , oracles_(oracles)
        , counts_(counts)
        , random_(seed)
    {
        redis::config settings{proxy.url()};
        settings.lease = lease;
        settings.claim_lease = claim;
        settings.health_check = std::chrono::milliseconds(100);
        settings.connect_timeout = std::chrono::milliseconds(500);
        settings.max_backoff = std::chrono::milliseconds(200);
        session_ = std::make_unique<redis::session>(context_, settings);
        for (std::size_t i = 0; i != oracles_.size(); ++i)
            make(i);
        for (int i = 0; i != workers; ++i)
            asio::co_spawn(context_, work(), [this](const std::exception_ptr& e) { ended(e); });
        workers_ = workers;
        thread_ = std::thread([this] { context_.run(); });
    }

    /// Keeps it from running.
    void pause(std::chrono::milliseconds span)
    {
        asio::post(context_, [span] { std::this_thread::sleep_for(span); });
    }

    /// Lets the workers come to their ends.
    void stop() { stopping_ = true; }

    void join()
    {
        thread_.join();
        mutexes_.clear();
        semaphores_.clear();
        shared_mutexes_.clear();
        session_.reset();
    }

    tcp_proxy proxy;

private:
    // Longer than any fault lasts, and then many leases and back-offs, also where everything is slow.
    static constexpr std::chrono::seconds longest_explicable_wait{120};

    void make(std::size_t number)
    {
        const std::string name = fmt::format("lock {}", number);
        mutexes_.push_back(nullptr);
        semaphores_.push_back(nullptr);
        shared_mutexes_.push_back(nullptr);
        switch (kind_of(number))
        {
        case kind::mutex:
            mutexes_.back() = std::make_unique<redis::async_mutex>(*session_, name);
            break;
        case kind::semaphore:
            semaphores_.back() =
                std::make_unique<redis::async_semaphore>(*session_, name, semaphore_capacity);
            break;
        case kind::shared_mutex:
            shared_mutexes_.back() = std::make_unique<redis::shared_mutex>(*session_, name);
            break;
        }
    }

    int roll(int least, int most)
    {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    asio::awaitable<void> sleep(std::chrono::milliseconds span)
    {
        asio::steady_timer timer{context_, span};
        co_await timer.async_wait(asio::deferred);
    }

    asio::awaitable<void> work()
    {
        while (!stopping_)
        {
            const auto which =
                static_cast<std::size_t>(roll(0, static_cast<int>(oracles_.size()) - 1));
            switch (kind_of(which))
            {
            case kind::mutex:
                co_await use_mutex(which);
                break;
            case kind::semaphore:
                co_await use_semaphore(which);
                break;
            case kind::shared_mutex:
                co_await use_shared_mutex(which);
                break;
            }
        }
    }

    asio::awaitable<void> use_mutex(std::size_t which)
    {
        const auto start = [mutex = mutexes_[which].get()](auto token)
        { return mutex->async_lock(std::move(token)); };
        any_guard guard = co_await attempt(which, start);
        if (guard)
            co_await section(which, guard, share(), nullptr);
    }

    asio::awaitable<void> use_semaphore(std::size_t which)
    {
        share wanted;
        wanted.units = roll(1, semaphore_capacity);
        wanted.exclusive = false;
        const auto start = [semaphore = semaphores_[which].get(), units = wanted.units](auto token)
        { return semaphore->async_acquire(units, std::move(token)); };
        any_guard guard = co_await attempt(which, start);
        if (guard)
            co_await section(which, guard, wanted, &counts_.permits);
    }

    asio::awaitable<void> use_shared_mutex(std::size_t which)
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
            if (guard)
                co_await section(which, guard, wanted, &counts_.writes);
        }
        else if (mode == 2)
        {
            const auto start = [mutex](auto token)
            { return mutex->async_lock_upgrade(std::move(token)); };
            wanted.rights = 1;
            any_guard guard = co_await attempt(which, start);
            if (guard)
                co_await upgradable_section(which, guard, wanted);
        }
        else
        {
            const auto start = [mutex](auto token)
            { return mutex->async_lock_shared(std::move(token)); };
            any_guard guard = co_await attempt(which, start);
            if (guard)
                co_await section(which, guard, wanted, &counts_.reads);
        }
    }

    /// Waits, and yields nothing if that came to nothing.
    template <class Start>
    asio::awaitable<any_guard> attempt(std::size_t which, Start start)
    {
        const auto begun = std::chrono::steady_clock::now();
        // One in four loses its patience.
        const bool patient = roll(1, 4) != 1;
        const auto patience = patient ? std::chrono::milliseconds(longest_explicable_wait)
                                      : std::chrono::milliseconds(roll(1, 300));
        auto token = asio::cancel_after(patience, asio::as_tuple(asio::deferred));
        auto [error, guard] = co_await start(std::move(token));
        counts_.waited(std::chrono::steady_clock::now() - begun);
        if (error == asio::error::operation_aborted && !patient)
            ++counts_.given_up;
        else if (error == asio::error::operation_aborted)
            counts_.violation(fmt::format("lock {}: waited in vain", which));
        else if (error == errc::lost)
            ++counts_.lost;
        else if (error)
            co_await note_error(error);
        any_guard result(std::move(guard));
        if (result)
            oracles_[which]->granted(result.fence());
        co_return result;
    }

    asio::awaitable<void> note_error(error_code error)
    {
        if (counts_.errors++ < 5)
            fmt::print(stderr, "error: {}\n", error.message());
        co_await sleep(std::chrono::milliseconds(10));
    }

    /// Is inside for a while, and gives back.
    asio::awaitable<void> section(std::size_t which, any_guard& guard, share has,
                                  std::atomic<std::uint64_t>* counter)
    {
        co_await stay(which, guard, has);
        const auto [error] = co_await guard.release(asio::as_tuple(asio::use_awaitable));
        ++(error ? counts_.lost : counts_.sections);
        if (!error && counter != nullptr)
            ++*counter;
    }

    asio::awaitable<void> stay(std::size_t which, any_guard& guard, share has)
    {
        oracle::visit visit(*oracles_[which], guard, has);
        for (int i = roll(1, 3); i > 0; --i)
        {
            visit.check();
            co_await sleep(std::chrono::milliseconds(roll(0, 4)));
            if (kind_of(which) == kind::semaphore && has.units > 1 && roll(1, 3) == 1)
            {
                visit.shrink();
                --has.units;
            }
        }
    }

    /// Reads, and perhaps writes then.
    asio::awaitable<void> upgradable_section(std::size_t which, any_guard& guard, share has)
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
                co_await section(which, upgraded, has, &counts_.upgrades);
                co_return;
            }
        }
        co_await section(which, guard, has, &counts_.reads);
    }

    void ended(const std::exception_ptr& error)
    {
        try
        {
            if (error)
                std::rethrow_exception(error);
        }
        catch (const std::exception& e)
        {
            counts_.violation(fmt::format("exception: {}", e.what()));
        }
        if (--workers_ == 0)
            session_->async_close([](const error_code&) {});
    }

    std::vector<std::unique_ptr<oracle>>& oracles_;
    tally& counts_;
    std::mt19937 random_;
    asio::io_context context_{1};
    std::unique_ptr<redis::session> session_;
    // By number; null if it is of another kind.
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes_;
    std::vector<std::unique_ptr<redis::async_semaphore>> semaphores_;
    std::vector<std::unique_ptr<redis::shared_mutex>> shared_mutexes_;
    std::atomic<int> workers_{0};
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace turnstile::test::chaos

#endif
