// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_CONFIG_HPP
#define TURNSTILE_REDIS_CONFIG_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::redis {

/// The severity of a line of the log.
enum class log_level
{
    /// For the developers of Turnstile.
    debug,
    /// Normal events: connected, reconnected.
    info,
    /// Needs attention: the connection is lost, the server may evict keys.
    warning,
    /// The session cannot work until an operator repairs the cause, or an operation has failed.
    error,
};

/// The default logger of a @ref config: writes warnings and errors to stderr, one line each.
void log_to_stderr(log_level level, std::string_view text);

/// Host and port of a server.
struct host_and_port
{
    /// 127.0.0.1:6379.
    host_and_port();
    /// Constructs from its parts.
    host_and_port(std::string host_name, std::uint16_t port_number);

    /// Compares host and port.
    friend bool operator==(const host_and_port&, const host_and_port&) = default;

    /// A name or an address; an IPv6 address without brackets.
    std::string host;
    /// From 1 to 65535.
    std::uint16_t port;
};

/**
 * @brief A user and its password.
 *
 * Not an aggregate, because GCC 12 miscompiles temporary aggregates in a `co_await`.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct user_credentials
{
    /// Neither user nor password: the session does not authenticate.
    user_credentials();
    /// Constructs from its parts.
    user_credentials(std::string user, std::string secret);

    /// The user; the server's default user if empty.
    std::string username;
    /// The password.
    std::string password;
};

/**
 * @brief The address of the server, and the settings of a session.
 *
 * @code
 * turnstile::redis::config settings{"redis://app:secret@db.example:6379/2?lease=10s&prefix=shop"};
 * settings.logger = [](turnstile::redis::log_level, std::string_view text) { std::clog << text << '\n'; };
 * @endcode
 *
 * Not an aggregate, because GCC 12 miscompiles temporary aggregates in a `co_await`.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct config
{
    /// Receives the log. Called on the session's executor; must neither block nor throw.
    using logger_type = std::function<void(log_level, std::string_view)>;

    /// Supplies user and password. Called on the session's executor before each attempt to connect, so it
    /// must not block. If it throws, that attempt fails with the exception's text.
    using credentials_type = std::function<user_credentials()>;

    /// The server at 127.0.0.1:6379, with default settings.
    config();

    /// The same as @ref from_url.
    explicit config(std::string_view url);

    /**
     * @brief Reads a URL.
     *
     * @code
     * redis://user:password@host:port/database?option=value&...   rediss://... with TLS
     * unix:///path?db=1
     * redis+sentinel://host:port,host:port/master/database        rediss+sentinel://... with TLS
     * @endcode
     *
     * Required are the host (and with sentinels the master) or a path. Each part may be percent-encoded. The options
     * are `prefix`, `client_name`, `db`, `user`, `password`, `ca_file`, `cert_file`, `key_file`, `verify` (yes, no),
     * `tls_name`, `renew_fraction`, `clock_drift`, `sentinel_user`, `sentinel_password`, and the durations `lease`,
     * `claim_lease`, `idle_time`, `loss_margin`, `grace`, `health_check`, `connect_timeout`, `max_backoff`. A duration
     * is a whole number with a unit: `500ms`, `15s`, `2min`, `1h`.
     *
     * @throws redis_error with errc::invalid_config; its text names the rule and the value that breaks it, but
     *         no part of a password, if the URL has a host.
     */
    [[nodiscard]] static config from_url(std::string_view url);

    /// Reads the URL in the environment variable `TURNSTILE_REDIS_URL`. If the variable is not set or empty,
    /// returns the defaults with a @ref notice, which each session logs together with the server's address. Throws like
    /// @ref from_url; the text names the variable.
    [[nodiscard]] static config from_environment();

    /// The first broken rule and the value that breaks it; empty if the configuration is valid.
    [[nodiscard]] std::optional<std::string> broken_rule() const;

    /// Throws a redis_error with errc::invalid_config if the configuration breaks a rule.
    void validate() const;

    /// @ref claim_lease, or its default if it is not set.
    [[nodiscard]] std::chrono::milliseconds effective_claim_lease() const noexcept;

    /// @ref health_check, or its default if it is not set.
    [[nodiscard]] std::chrono::milliseconds effective_health_check() const noexcept;

    /// The URL of the server for logs: without user, password and options.
    [[nodiscard]] std::string server_name() const;

    /// The server; unused with a unix socket or sentinels.
    host_and_port server;
    /// The path of the server's unix socket, or empty.
    std::string unix_socket;
    /// The sentinels that know the master's address, or none.
    std::vector<host_and_port> sentinels;
    /// The name under which the sentinels know the master.
    std::string master_name;
    /// The user for the sentinels; the default user if empty.
    std::string sentinel_username;
    /// The password for the sentinels; empty if they require none.
    std::string sentinel_password;

    /// Whether to use TLS, also for the sentinels.
    bool tls = false;
    /// The file with the trusted certificates; the system's if empty. This and the other files need @ref tls.
    std::string tls_ca_file;
    /// The file with the client's certificate and its chain, in PEM; none if empty. Redis asks for a client
    /// certificate unless `tls-auth-clients` is `no`. Read at each attempt to connect, so a renewed file
    /// needs no restart.
    std::string tls_cert_file;
    /// The file with the private key of @ref tls_cert_file, in PEM; not encrypted.
    std::string tls_key_file;
    /// Whether to verify the server's certificate: its issuer, and that it names the host. With sentinels,
    /// the host is the name or address that they report for the master.
    bool tls_verify = true;
    /// The name that certificates have to contain; the host's name if empty. Needs @ref tls. Useful if sentinels
    /// report an address, which certificates seldom contain.
    std::string tls_name;

    /// The user; the server's default user if empty.
    std::string username;
    /// The password; without user and password the session does not authenticate.
    std::string password;
    /// Supplies user and password for each attempt to connect, in place of the two members above. Use it for
    /// passwords that change while the program runs. Existing connections are not affected. May be empty.
    credentials_type credentials;
    /// The number of the database, from 0 to 1,000,000.
    int database = 0;
    /// The first part of the name of each key and channel. No braces, white space or control characters.
    std::string prefix = "turnstile";
    /// The name of the connection in CLIENT LIST, and of a holder in `async_inspect()`. Only ASCII characters,
    /// without white space and control characters. If empty: `program@host:process`.
    std::string client_name;

    /// The shortest lease of a lock.
    static constexpr std::chrono::milliseconds shortest_lease{100};
    /// The longest lease, and the longest of all other durations. With much longer ones, the computations of the
    /// server and of timers would overflow.
    static constexpr std::chrono::milliseconds longest_duration{std::chrono::hours{24}};

    /// How long a lease lasts from its last renewal; from 100 ms to 24 h. Each mutex may override it.
    std::chrono::milliseconds lease{15'000};
    /// The time within which the receiver has to confirm a new grant; from 100 ms to the lease. If not set:
    /// 4 s, or the lease if that is shorter.
    std::optional<std::chrono::milliseconds> claim_lease;
    /// The keys of a lock expire a lease and this time after its last use, or up to half of this time earlier. The
    /// effective time is at least the lease, and at least 500 ms, so the server does not forget a waiter before it
    /// asks again. If sessions have different leases, set it to at least the longest one. Otherwise, after the server
    /// has lost its memory, it may grant the lock to another client, and forget that client when the keys expire,
    /// before the former holder reconnects. Then the former holder reclaims the lock with its old token.
    std::chrono::milliseconds idle_time{60'000};
    /// The fraction of a lease after which it is renewed; between 0.05 and 0.9. The holder relies on the lease for a
    /// shorter time. The renewal is sent at the latest when two thirds of that time have passed.
    double renew_fraction = 1.0 / 3;
    /// The time before the end of its lease at which a holder learns of a loss; between 1 ms and half of the claim
    /// lease. The effective time is at least two round trips, but at most a quarter of the lease in force.
    std::chrono::milliseconds loss_margin{50};
    /// The time after the start or takeover of a server in which this server grants no lock or unit that another
    /// client may hold without the server's knowledge. Meanwhile, holders that the server does not know reconnect and
    /// keep their locks. 0 turns this off. Set it to at least the longest lease, and to the same value in all sessions.
    std::chrono::milliseconds grace{0};
    /// The largest difference between the speeds of the client's and the server's clocks, as a fraction of the faster
    /// one; between 0.0001 and 0.5. A holder shortens its lease by this fraction before it relies on it. The default
    /// covers a clock that chrony slews at its default limit (1/12); 0.001 suffices where clocks are stepped
    /// or follow ntpd, which slews by 1/2000.
    double clock_drift = 0.1;
    /// The time without any traffic after which the session checks the connection. The session detects a broken
    /// connection after one to two of these times. The value must exceed half of the server's longest pause,
    /// and be at most a third of the lease. If not set: 500 ms, or a quarter of the lease if that is shorter.
    std::optional<std::chrono::milliseconds> health_check;
    /// The limit of each step of an attempt to connect: resolving the name, connecting the socket, the TLS
    /// handshake, and with sentinels each query. The system cannot be interrupted while it asks a name server, so
    /// that may take longer. If a server accepts the connection but sends nothing, the attempt fails after two
    /// @ref health_check. If the server sends something, but no answers, the attempt fails when the limits of all
    /// steps together have passed. The session repeats attempts, so this value limits no operation but
    /// session::async_close(). To limit an operation, use its timed form, such as `async_try_lock_for`.
    std::chrono::milliseconds connect_timeout{1'000};
    /// The longest pause between two attempts to connect. A session keeps trying even if the server rejects
    /// it, because an operator may repair the server.
    std::chrono::milliseconds max_backoff{1'000};

    /// Receives lines of all levels. The session logs a problem once, not once per attempt, and the same failure of
    /// an operation once in each minute. By default, log_to_stderr(); if empty, nothing is logged.
    logger_type logger = &log_to_stderr;

    /// A warning that each session logs at its start, before the server's address; may be empty.
    /// @ref from_environment uses it to report that the variable is not set or empty.
    std::string notice;
};

}  // namespace turnstile::redis

#endif
