// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <tuple>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "redis/transport/identity.hpp"
#include "redis/transport/parse_url.hpp"

// The configuration and its valid values. parse_url.cpp reads URLs.

namespace turnstile::redis {

namespace {

using std::chrono::milliseconds;

using problem = std::optional<std::string>;

constexpr milliseconds shortest_time{10};
constexpr int largest_database = 1'000'000;
constexpr double smallest_fraction = 0.05;
constexpr double largest_fraction = 0.9;
constexpr double smallest_drift = 0.0001;
constexpr double largest_drift = 0.5;

/// White space and control characters, which are not allowed in names that appear in Redis commands or in a
/// log. Bytes of UTF-8 are allowed.
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
        return fmt::format("{}: must have none of {}", option, forbidden);
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
    if (c.sentinels.empty() && !c.sentinel_username.empty())
        return fmt::format("sentinel_user={}: must go with sentinels, as in redis+sentinel://",
                           c.sentinel_username);
    if (c.sentinels.empty() && !c.sentinel_password.empty())
        return "sentinel_password: must go with sentinels, as in redis+sentinel://";
    if (!c.unix_socket.empty())
    {
        if (c.tls)
            return fmt::format("unix_socket={}: there is no TLS over a unix socket", c.unix_socket);
        if (!c.sentinels.empty())
            return fmt::format("unix_socket={}: cannot go with sentinels", c.unix_socket);
        // The address of a socket has no room for a longer path.
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

problem check_tls(const config& c)
{
    if (c.tls_cert_file.empty() != c.tls_key_file.empty())
        return fmt::format("{}={}: cert_file and key_file must be given together",
                           c.tls_cert_file.empty() ? "key_file" : "cert_file",
                           c.tls_cert_file.empty() ? c.tls_key_file : c.tls_cert_file);
    const std::pair<const char*, const std::string&> options[] = {
        {"ca_file", c.tls_ca_file}, {"cert_file", c.tls_cert_file}, {"tls_name", c.tls_name}};
    for (const auto& [name, value] : options)
        if (!c.tls && !value.empty())
            return fmt::format("{}={}: must go with TLS, as in rediss://", name, value);
    return {};
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
    if (!std::ranges::all_of(c.client_name, detail::is_allowed_in_client_name))
        return "client_name: must have only the characters from '!' to '~'";
    return {};
}

problem check_range(std::string_view option, milliseconds value, milliseconds least)
{
    if (value < least || value > config::longest_duration)
        return fmt::format("{}={}ms: must be between {}ms and 24h", option, value.count(),
                           least.count());
    return {};
}

/// Checks the durations of leases.
problem check_leases(const config& c)
{
    if (problem p = check_range("lease", c.lease, config::shortest_lease))
        return p;
    const milliseconds claim_lease = c.effective_claim_lease();
    if (problem p = check_range("claim_lease", claim_lease, config::shortest_lease))
        return p;
    if (claim_lease > c.lease)
        return fmt::format("claim_lease={}ms: must be at most the lease, {}ms", claim_lease.count(),
                           c.lease.count());
    if (problem p = check_range("idle_time", c.idle_time, milliseconds{0}))
        return p;
    if (problem p = check_range("grace", c.grace, milliseconds{0}))
        return p;
    // Also false for NaN.
    if (!(c.renew_fraction >= smallest_fraction && c.renew_fraction <= largest_fraction))
        return fmt::format("renew_fraction={}: must be between {} and {} of the lease",
                           c.renew_fraction, smallest_fraction, largest_fraction);
    if (!(c.clock_drift >= smallest_drift && c.clock_drift <= largest_drift))
        return fmt::format("clock_drift={}: must be between {} and {}", c.clock_drift,
                           smallest_drift, largest_drift);
    if (c.loss_margin < milliseconds{1} || c.loss_margin > claim_lease / 2)
        return fmt::format(
            "loss_margin={}ms: must be between 1ms and half of the claim lease, {}ms",
            c.loss_margin.count(), claim_lease.count());
    return {};
}

/// Checks the durations of the connection.
problem check_times(const config& c)
{
    const milliseconds health_check = c.effective_health_check();
    if (problem p = check_range("health_check", health_check, shortest_time))
        return p;
    if (3 * health_check > c.lease)
        return fmt::format("health_check={}ms: must be at most a third of the lease, {}ms",
                           health_check.count(), c.lease.count());
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

void log_to_stderr(log_level level, std::string_view text)
{
    if (level < log_level::warning)
        return;
    const std::string line =
        fmt::format("turnstile: {}: {}\n", level == log_level::error ? "error" : "warning", text);
    // One call, so that the lines of several threads do not interleave. A logger must not throw, so a line that cannot
    // be written is dropped.
    std::ignore = std::fwrite(line.data(), 1, line.size(), stderr);
}

host_and_port::host_and_port()
    : host_and_port("127.0.0.1", 6379)
{
}

host_and_port::host_and_port(std::string host_name, std::uint16_t port_number)
    : host(std::move(host_name))
    , port(port_number)
{
}

user_credentials::user_credentials() = default;

user_credentials::user_credentials(std::string user, std::string secret)
    : username(std::move(user))
    , password(std::move(secret))
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
    // No thread changes the environment while the program reads its configuration.
    const char* url = std::getenv("TURNSTILE_REDIS_URL");  // NOLINT(concurrency-mt-unsafe)
    if (url == nullptr || *url == '\0')
    {
        config c;
        c.notice =
            url == nullptr ? "TURNSTILE_REDIS_URL is not set" : "TURNSTILE_REDIS_URL is empty";
        return c;
    }
    try
    {
        return from_url(url);
    }
    catch (const redis_error& error)
    {
        throw redis_error(errc::invalid_config,
                          std::string("TURNSTILE_REDIS_URL: ") + error.what());
    }
}

std::optional<std::string> config::broken_rule() const
{
    for (auto* check : {&check_servers, &check_tls, &check_names, &check_leases, &check_times})
        if (problem p = check(*this))
            return p;
    return {};
}

void config::validate() const
{
    if (problem p = broken_rule())
        throw redis_error(errc::invalid_config, *p);
}

milliseconds config::effective_claim_lease() const noexcept
{
    constexpr milliseconds longest{4'000};
    return claim_lease.value_or(std::min(longest, lease));
}

milliseconds config::effective_health_check() const noexcept
{
    // A quarter leaves time to reconnect after two checks without an answer.
    constexpr milliseconds longest{500};
    return health_check.value_or(std::min(longest, lease / 4));
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
