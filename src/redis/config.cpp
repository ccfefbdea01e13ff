// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "parse_url.hpp"

// What a configuration is and which values it may have. How a URL is read stands in parse_url.cpp.

namespace turnstile::redis {

namespace {

using std::chrono::milliseconds;

using problem = std::optional<std::string>;

constexpr milliseconds shortest_lease{100};
constexpr milliseconds shortest_time{10};
constexpr milliseconds longest_time{std::chrono::hours{24}};
constexpr int largest_database = 1'000'000;
constexpr double smallest_fraction = 0.05;
constexpr double largest_fraction = 0.9;

/// White space and control characters, which no name may hold that stands in a command line of Redis or
/// a log. Bytes of UTF-8 are none of them.
bool is_blank(char c)
{
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f;
}

problem check_name(std::string_view option, std::string_view value, std::string_view forbidden)
{
    if (value.empty())
        return fmt::format("{}: must not be empty", option);
    if (std::ranges::any_of(value, is_blank))
        return fmt::format("{}: must have no white space or control characters", option);
    if (value.find_first_of(forbidden) != std::string_view::npos)
        return fmt::format("{}={}: must have none of {}", option, value, forbidden);
    return {};
}

problem check_server(const host_and_port& server)
{
    if (server.host.empty() || std::ranges::any_of(server.host, is_blank))
        return "host: must not be empty or have white space";
    if (server.port == 0)
        return "port=0: must be between 1 and 65535";
    return {};
}

problem check_servers(const config& c)
{
    if (!c.unix_socket.empty())
    {
        if (c.tls)
            return fmt::format("unix_socket={}: there is no TLS over a unix socket", c.unix_socket);
        if (!c.sentinels.empty())
            return fmt::format("unix_socket={}: cannot go with sentinels", c.unix_socket);
        // What fits into a socket's address.
        if (c.unix_socket.size() > 107)
            return fmt::format("unix_socket={}: must have at most 107 bytes", c.unix_socket);
        return {};
    }
    for (const host_and_port& each : c.sentinels)
        if (problem p = check_server(each))
            return p;
    if (c.sentinels.empty())
        return check_server(c.server);
    return check_name("master_name", c.master_name, "");
}

problem check_names(const config& c)
{
    if (c.database < 0 || c.database > largest_database)
        return fmt::format("db={}: must be between 0 and {}", c.database, largest_database);
    if (problem p = check_name("prefix", c.prefix, "{}"))
        return p;
    if (!c.username.empty())
        if (problem p = check_name("user", c.username, ""))
            return p;
    if (!c.tls_name.empty())
        if (problem p = check_name("tls_name", c.tls_name, ""))
            return p;
    return check_name("client_name", c.client_name, "");
}

problem check_range(std::string_view option, milliseconds value, milliseconds least)
{
    if (value < least || value > longest_time)
        return fmt::format("{}={}ms: must be between {}ms and 24h", option, value.count(),
                           least.count());
    return {};
}

/// The times that have to do with leases.
problem check_leases(const config& c)
{
    if (problem p = check_range("lease", c.lease, shortest_lease))
        return p;
    if (problem p = check_range("claim_lease", c.claim_lease, shortest_lease))
        return p;
    if (c.claim_lease > c.lease)
        return fmt::format("claim_lease={}ms: must be at most the lease, {}ms",
                           c.claim_lease.count(), c.lease.count());
    if (problem p = check_range("idle_time", c.idle_time, milliseconds{0}))
        return p;
    if (problem p = check_range("grace", c.grace, milliseconds{0}))
        return p;
    // Also false for what is not a number.
    if (!(c.renew_fraction >= smallest_fraction && c.renew_fraction <= largest_fraction))
        return fmt::format("renew_fraction={}: must be between {} and {} of the lease",
                           c.renew_fraction, smallest_fraction, largest_fraction);
    if (c.loss_margin < milliseconds{1} || 2 * c.loss_margin > c.claim_lease)
        return fmt::format(
            "loss_margin={}ms: must be between 1ms and half of the claim lease, {}ms",
            c.loss_margin.count(), c.claim_lease.count());
    return {};
}

/// The times that have to do with the connection.
problem check_times(const config& c)
{
    if (problem p = check_range("health_check", c.health_check, shortest_time))
        return p;
    if (3 * c.health_check > c.lease)
        return fmt::format("health_check={}ms: must be at most a third of the lease, {}ms",
                           c.health_check.count(), c.lease.count());
    if (problem p = check_range("connect_timeout", c.connect_timeout, shortest_time))
        return p;
    return check_range("max_backoff", c.max_backoff, shortest_time);
}

std::string name_of(const host_and_port& server)
{
    if (server.host.find(':') == std::string::npos)
        return fmt::format("{}:{}", server.host, server.port);
    return fmt::format("[{}]:{}", server.host, server.port);
}

}  // namespace

host_and_port::host_and_port()
    : host_and_port("127.0.0.1", 6379)
{
}

host_and_port::host_and_port(std::string host_name, std::uint16_t port_number)
    : host(std::move(host_name))
    , port(port_number)
{
}

config::config() = default;

config::config(std::string_view url)
    : config(from_url(url))
{
}

config config::from_url(std::string_view url)
{
    config c;
    detail::parse_url(url, c);
    c.validate();
    return c;
}

config config::from_environment()
{
    // Nobody sets variables while a program looks for its server.
    const char* url = std::getenv("TURNSTILE_REDIS_URL");  // NOLINT(concurrency-mt-unsafe)
    return url == nullptr ? config{} : from_url(url);
}

std::optional<std::string> config::broken_rule() const
{
    for (auto* check : {&check_servers, &check_names, &check_leases, &check_times})
        if (problem p = check(*this))
            return p;
    return {};
}

void config::validate() const
{
    if (problem p = broken_rule())
        throw redis_error(errc::invalid_config, *p);
}

std::string config::server_name() const
{
    if (!unix_socket.empty())
        return "unix://" + unix_socket;
    if (sentinels.empty())
        return fmt::format("{}://{}", tls ? "rediss" : "redis", name_of(server));

    std::string list;
    for (const host_and_port& each : sentinels)
        list += (list.empty() ? "" : ",") + name_of(each);
    return fmt::format("{}+sentinel://{}/{}", tls ? "rediss" : "redis", list, master_name);
}

}  // namespace turnstile::redis
