// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_CLIENT_HPP
#define TURNSTILE_TEST_CHAOS_CLIENT_HPP

#include <algorithm>
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
#include <chaos/server.hpp>
#include <chaos/tally.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

namespace asio = boost::asio;

// Longer than any fault, plus many leases and back-offs, on a slow machine, too.
inline constexpr std::chrono::milliseconds longest_explicable_wait{300'000};

/// How the soak ends: first producers stop to bring items, then all workers stop.
struct course
{
    std::atomic<bool> nobody_brings{false};
    /// The number of workers that bring items.
    std::atomic<int> bringers{0};
    std::atomic<bool> is_over{false};
};

/// The result of an attempt.
enum class outcome
{
    done,
    /// It was not executed.
    nothing,
    /// It was not executed because a requirement does not hold.
    unmet,
    doubtful,
};

/// The time limit of a wait.
struct patience
{
    patience(std::chrono::milliseconds how_long, const tally& counts)
        : span(how_long)
        , begun(counts.awake())
    {
    }

    /// Whether no known cause explains that the limit was too short.
    [[nodiscard]] bool is_exhausted(const tally& counts) const
    {
        return span == longest_explicable_wait && counts.awake() - begun > span / 2;
    }

    std::chrono::milliseconds span;
    std::chrono::milliseconds begun;
};

/// A coroutine that repeats an action.
struct worker
{
    worker(std::string what, bool is_helper)
        : name(std::move(what))
        , helps(is_helper)
    {
    }

    std::string name;
    /// It only helps other workers. The soak does not wait for it.
    bool helps;
    /// The number of successful repetitions.
    std::atomic<std::uint64_t> laps{0};
    std::atomic<bool> has_ended{false};
};

/// A session with its own proxy and thread, and its workers.
class client
{
public:
    client(std::string name, std::uint16_t server_port, tally& counts, unsigned seed)
        : proxy(server_port)
        , name_(std::move(name))
        , counts_(counts)
        , random_(seed)
        , session_(std::make_unique<redis::session>(context_, settings()))
    {
    }

    [[nodiscard]] redis::session& session() const { return *session_; }
    [[nodiscard]] tally& counts() const { return counts_; }
    [[nodiscard]] const std::vector<std::unique_ptr<worker>>& workers() const { return workers_; }

    /// Adds a worker before run(): a function that receives it and returns an awaitable.
    template <class Work>
    void employ(const std::string& what, Work work, bool helps = false)
    {
        workers_.push_back(std::make_unique<worker>(name_ + ", " + what, helps));
        worker& who = *workers_.back();
        asio::co_spawn(context_, work(who),
                       [this, &who](const std::exception_ptr& e) { ended(who, e); });
    }

    void run()
    {
        thread_ = std::thread([this] { context_.run(); });
    }

    /// Blocks its thread.
    void pause(std::chrono::milliseconds span)
    {
        asio::post(context_, [span] { std::this_thread::sleep_for(span); });
    }

    /// Whether a worker that needs helpers still runs.
    [[nodiscard]] bool is_busy() const
    {
        return std::ranges::any_of(workers_, [](const auto& each)
                                   { return !each->helps && !each->has_ended; });
    }

    /// Waits until the workers have ended, and closes the session.
    void join()
    {
        thread_.join();
        session_.reset();
    }

    // --- for the workers, in their thread ---

    int roll(int least, int most)
    {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    /// One limit in four is short.
    patience roll_patience()
    {
        return {roll(1, 4) != 1 ? longest_explicable_wait : std::chrono::milliseconds(roll(1, 300)),
                counts_};
    }

    [[nodiscard]] patience endless_patience() const { return {longest_explicable_wait, counts_}; }

    asio::awaitable<void> sleep(std::chrono::milliseconds span)
    {
        asio::steady_timer timer{context_, span};
        co_await timer.async_wait(asio::deferred);
    }

    /// A completion token with this time limit, which returns the error as a part of the result.
    static auto no_longer_than(const time_limit& limit)
    {
        return asio::cancel_after(limit.span, asio::as_tuple(asio::deferred));
    }

    /// Records an unexpected error, and returns the outcome.
    outcome conclude(const error_code& error, const time_limit& limit, const std::string& what)
    {
        if (!error)
            return outcome::done;
        if (error == asio::error::operation_aborted && limit.is_exhausted(counts_))
            counts_.violation(what + ": waited in vain");
        else if (error == asio::error::operation_aborted)
            ++counts_.given_up;
        else if (error == turnstile::errc::lost)
            ++counts_.lost;
        else
        {
            if (error == redis::errc::unknown_outcome)
                ++counts_.doubtful;
            else
                counts_.error(what + ": " + error.message());
            return outcome::doubtful;
        }
        return outcome::nothing;
    }

    tcp_proxy proxy;

private:
    /// The log explains permanent errors of the server, which an error code does not.
    [[nodiscard]] redis::config settings() const
    {
        redis::config result(brief_url(proxy.url()));
        result.logger = [this](redis::log_level level, std::string_view text)
        {
            if (level == redis::log_level::error)
                fmt::print(stderr, "{}: {}\n", name_, text);
        };
        return result;
    }

    void ended(worker& who, const std::exception_ptr& error)
    {
        try
        {
            if (error)
                std::rethrow_exception(error);
        }
        catch (const std::exception& e)
        {
            counts_.violation(fmt::format("{}: {}", who.name, e.what()));
        }
        who.has_ended = true;
        if (std::ranges::all_of(workers_, [](const auto& each) { return each->has_ended.load(); }))
            session_->async_close([](const error_code&) {});
    }

    const std::string name_;
    tally& counts_;
    std::mt19937 random_;
    asio::io_context context_{1};
    std::unique_ptr<redis::session> session_;
    std::vector<std::unique_ptr<worker>> workers_;
    std::thread thread_;
};

}  // namespace turnstile::test::chaos

#endif
