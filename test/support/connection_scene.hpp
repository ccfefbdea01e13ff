// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_CONNECTION_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_CONNECTION_SCENE_HPP

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <redis/transport/connection.hpp>
#include <string>
#include <string_view>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

/// Records the calls that an observer of a connection receives.
struct witness final : redis::detail::connection::observer
{
    void connected(std::uint64_t incarnation, const redis::detail::server_info& which) override
    {
        incarnations.push_back(incarnation);
        server = which;
        calls += 'c';
    }
    void disconnected(error_code why) override
    {
        last = why;
        const bool for_good =
            why.category() == redis::redis_category() && why != redis::errc::unreachable;
        calls += for_good ? 'f' : 'd';
    }
    void message(std::string_view payload) override { messages.emplace_back(payload); }

    std::vector<std::uint64_t> incarnations;
    redis::detail::server_info server;
    std::vector<std::string> messages;
    error_code last;
    /// A letter for each call except message(): `f` if the error of an attempt is not temporary.
    std::string calls;
};

/// A connection on its own context, which until() runs.
class connection_scene
{
public:
    using reply = redis::detail::reply;

    explicit connection_scene(redis::config settings)
    {
        be_patient(settings);
        settings.logger = [this](redis::log_level level, std::string_view text)
        {
            log += text;
            log += '\n';
            if (level == redis::log_level::warning)
                ++warnings;
            if (level == redis::log_level::error)
                ++errors;
        };
        context = std::make_unique<boost::asio::io_context>();
        it = redis::detail::connection::make(
            boost::asio::make_strand(*context), settings,
            [prefix = settings.prefix](std::uint64_t number) { return channel(number, prefix); },
            seen);
        it->start();
    }

    /// Disables the detection of slow peers, except for settings that the test changes itself.
    static void be_patient(redis::config& settings)
    {
        const redis::config usual;
        if (settings.health_check == usual.health_check)
        {
            settings.lease = std::chrono::minutes{10};
            settings.health_check = std::chrono::seconds{60};
        }
        if (settings.connect_timeout == usual.connect_timeout)
            settings.connect_timeout = std::chrono::seconds{15};
    }

    static std::string channel(std::uint64_t number, const std::string& prefix = "turnstile")
    {
        return prefix + ":0:wake:7f3a#" + std::to_string(number);
    }

    /// Runs the context until a condition holds. Returns whether it does.
    template <class Condition>
    bool until(Condition condition, std::chrono::milliseconds time_limit = std::chrono::seconds{20})
    {
        const auto deadline = std::chrono::steady_clock::now() + time_limit;
        while (!condition())
            if (context->run_one_until(deadline) == 0)
                return condition();
        return true;
    }

    bool until_seen(const std::string& what)
    {
        return until([&] { return seen.calls.find(what) != std::string::npos; });
    }

    /// Sends a command and waits for its result.
    reply ask(const std::vector<std::string>& words)
    {
        std::optional<reply> answer;
        it->command(words, [&](reply r) { answer = std::move(r); });
        BOOST_REQUIRE(until([&] { return answer.has_value(); }));
        return *answer;
    }

    reply run(const redis::detail::script& which, const std::vector<std::string>& keys,
              const std::vector<std::string>& args)
    {
        std::optional<reply> answer;
        it->eval(which, keys, args, [&](reply r) { answer = std::move(r); });
        BOOST_REQUIRE(until([&] { return answer.has_value(); }));
        return *answer;
    }

    /// Closes the connection, runs the context until it has no work, and checks that nothing is
    /// left over.
    void close()
    {
        bool closed = false;
        it->close([&] { closed = true; });
        BOOST_TEST(until([&] { return closed; }));
        BOOST_TEST(context->run_for(std::chrono::seconds{20}) < 100U);
        BOOST_TEST(context->stopped());
    }

    std::string log;
    int warnings = 0;
    int errors = 0;
    witness seen;
    std::unique_ptr<boost::asio::io_context> context;
    std::shared_ptr<redis::detail::connection> it;
};

}  // namespace turnstile::test

#endif
