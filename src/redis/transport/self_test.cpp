// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/self_test.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

namespace {

/// The message to the session's own wake channel, which no other client knows yet.
constexpr std::string_view probe = "probe";

/// Parses a number; 0 if the text is not a number.
std::int64_t number_in(std::string_view text)
{
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

}  // namespace

self_test::self_test(const config& settings)
    : settings_(&settings)
    , key_(settings.prefix + ":{0}:self_test")
{
}

void self_test::ask(link& target, const std::string& channel, std::function<void()> progress)
{
    static constexpr request_word server[] = {{"server"}};
    static constexpr request_word memory[] = {{"memory"}};
    const request_word message[] = {{channel}, {probe}};

    link_ = &target;
    progress_ = std::move(progress);
    send("INFO", server, [this](std::string_view info) { take_server(info); });
    send("INFO", memory, [this](std::string_view info) { take_memory(info); });
    send("PUBLISH", message, [](std::string_view) {});
}

void self_test::send(std::string_view command, std::span<const request_word> arguments,
                     std::function<void(std::string_view)> take)
{
    ++unanswered_;
    link_->exec(command, arguments,
                [this, command, take = std::move(take)](const reply& r)
                {
                    --unanswered_;
                    // If there is no answer, the link has broken, and reports the reason itself.
                    if (r.result == reply::status::ok)
                        take(r.text());
                    else if (r.result == reply::status::error)
                        fail(diagnose(r.error, command, *settings_));
                    progress_();
                });
}

bool self_test::hears(std::string_view payload)
{
    received_ = received_ || payload == probe;
    return payload == probe;
}

void self_test::end_wait_for_message()
{
    fail({errc::missing_permission, "a message to the session's own wake channel did not arrive; " +
                                        missing_channel("listen to", *settings_)});
}

void self_test::fail(diagnosis why)
{
    if (!failure_)
        failure_ = std::move(why);
}

void self_test::take_server(std::string_view info)
{
    server_ = {info_field(info, "run_id"), info_field(info, "redis_version")};
    server_.now = number_in(info_field(info, "server_time_usec"));
    // The uptime is in full seconds, so the server may have started up to one second later.
    constexpr std::int64_t second = 1'000'000;
    server_.started = server_.now - (number_in(info_field(info, "uptime_in_seconds")) - 1) * second;
    // Valkey calls the field server_mode.
    std::string mode = info_field(info, "redis_mode");
    if (mode.empty())
        mode = info_field(info, "server_mode");
    if (mode == "sentinel")
        fail({errc::invalid_config,
              "the server is a sentinel; use redis+sentinel:// and the name of the master"});
    else if (mode == "cluster")
        fail(
            {errc::unsupported_server,
             "the server is a node of a Redis Cluster, which is not supported: a lock, its waiters "
             "and its wake-ups would be spread over nodes; use a server with cluster-enabled no"});
    else if (!is_supported(server_.version))
        fail({errc::unsupported_server,
              fmt::format("the server must be Redis 7.0 or newer, not '{}'", server_.version)});
    else
        test_scripts();
}

void self_test::test_scripts()
{
    for (const script& each : scripts())
    {
        const request_word words[] = {{"LOAD"}, {each.text}};
        send("SCRIPT", words, [](std::string_view) {});
    }
    const request_word words[] = {{script_named("self_test").sha1}, {"0"}, {key_}};
    send("EVALSHA", words, [this](std::string_view rules) { take_rules(rules); });
    if (settings_->grace.count() != 0)
        meet_server();
}

/// A promoted replica may have started long ago. So the first client that meets it records the time.
void self_test::meet_server()
{
    const script& which = script_named("self_met");
    const std::string record = settings_->prefix + ":{0}:server";
    const request_word words[] = {{which.sha1}, {"1"}, {record}, {server_.run_id}};
    ++unanswered_;
    link_->exec(
        "EVALSHA", words,
        [this](const reply& r)
        {
            --unanswered_;
            if (r.result == reply::status::ok)
                server_.started = std::max(server_.started, number_in(r.text()));
            else
                warn("the time of the server's takeover cannot be recorded, so a grace counts "
                     "from its start: " +
                     r.error);
            progress_();
        },
        &which);
}

void self_test::take_memory(std::string_view info)
{
    const std::string policy = info_field(info, "maxmemory_policy");
    // The keys of locks have a time to live, so the volatile policies evict them, too.
    if (!policy.empty() && policy != "noeviction")
        warn(fmt::format("maxmemory-policy is {}, so the server may evict locks; set it to "
                         "noeviction",
                         policy));
}

void self_test::take_rules(std::string_view missing)
{
    // The user may be restricted to the keys of some locks, which is legitimate.
    if (missing == "~")
        warn(
            fmt::format("the user may not use all keys {0}:*, so missing rules will only show when "
                        "locks are used; add ~{0}:*",
                        settings_->prefix));
    else if (missing != "OK")
        fail({errc::missing_permission, missing_rules(missing, *settings_)});
}

void self_test::warn(const std::string& text)
{
    warning_ +=
        fmt::format("{}{}: {}", warning_.empty() ? "" : "; ", settings_->server_name(), text);
}

}  // namespace turnstile::redis::detail
