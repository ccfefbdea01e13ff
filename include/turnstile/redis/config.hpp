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

/// How important a line of the log is.
enum class log_level
{
    /// For the developers of Turnstile.
    debug,
    /// What happens anyway: connected, connected again.
    info,
    /// What somebody should look at: the connection is lost, the server may evict keys.
    warning,
    /// What keeps the session from working until somebody changes it.
    error,
};

/// Host and port of a server.
struct host_and_port
{
    /// 127.0.0.1:6379.
    host_and_port();
    /// Constructs from its parts.
    host_and_port(std::string host_name, std::uint16_t port_number);

    /// Compares host and port.
    friend bool operator==(const host_and_port&, const host_and_port&) = default;

    /// A name or an address; one of IPv6 without brackets.
    std::string host;
    /// From 1 to 65535.
    std::uint16_t port;
};

/**
 * @brief Where a session finds its server, and how it deals with it.
 *
 * @code
 * turnstile::redis::config settings{"redis://app:secret@db.example:6379/2?lease=10s&prefix=shop"};
 * settings.logger = [](turnstile::redis::log_level, std::string_view text) { std::clog << text << '\n'; };
 * @endcode
 *
 * Not an aggregate, so that GCC 12 gets temporaries in a `co_await` right.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
struct config
{
    /// Receives what happens to a session. Called on the session's executor; must not throw.
    using logger_type = std::function<void(log_level, std::string_view)>;

    /// The server at 127.0.0.1:6379, and defaults.
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
     * Everything but the host may be absent, and each part may be percent-encoded. The options are
     * `prefix`, `client_name`, `db`, `user`, `password`, `ca_file`, `verify` (yes, no), `tls_name`,
     * `renew_fraction`, `sentinel_user`, `sentinel_password`, and the times `lease`, `claim_lease`, `idle_time`,
     * `loss_margin`, `grace`, `health_check`, `connect_timeout`, `max_backoff`, each a whole number with its unit:
     * `500ms`, `15s`, `2min`, `1h`.
     *
     * @throws redis_error with errc::invalid_config; its text names the value and the rule, and never
     *         the password.
     */
    [[nodiscard]] static config from_url(std::string_view url);

    /// Reads the URL in the environment variable `TURNSTILE_REDIS_URL`; the defaults if there is none.
    /// Throws like @ref from_url.
    [[nodiscard]] static config from_environment();

    /// The first rule that is broken, with the value that breaks it, if any is.
    [[nodiscard]] std::optional<std::string> broken_rule() const;

    /// Throws a redis_error with errc::invalid_config if a rule is broken.
    void validate() const;

    /// The URL of the server for logs: without user, password and options.
    [[nodiscard]] std::string server_name() const;

    /// The server, unless there is a unix socket or a list of sentinels.
    host_and_port server;
    /// The path of the server's unix socket, or empty.
    std::string unix_socket;
    /// The sentinels that know where the master is, or none.
    std::vector<host_and_port> sentinels;
    /// The name under which the sentinels know the master.
    std::string master_name;
    /// The user at the sentinels; the default user if empty.
    std::string sentinel_username;
    /// The password at the sentinels; empty for those that want none.
    std::string sentinel_password;

    /// Whether to talk TLS, with sentinels too.
    bool tls = false;
    /// The file of the certificates that are trusted; the system's if empty.
    std::string tls_ca_file;
    /// Whether the server's certificate is checked: who signed it, and that it is the host's. The host is
    /// what the sentinels call the master, if there are any.
    bool tls_verify = true;
    /// The name that certificates are to be for, instead of the host's; where sentinels name the master by
    /// an address, its certificate seldom does. The host's if empty.
    std::string tls_name;

    /// The user; the server's default user if empty.
    std::string username;
    /// The password; without user and password the session does not authenticate.
    std::string password;
    /// The number of the database, at least 0.
    int database = 0;
    /// The first part of the name of each key and channel. No braces, white space or control characters.
    std::string prefix = "turnstile";
    /// What CLIENT LIST calls the connection.
    std::string client_name = "turnstile";

    /// How long a lock is held without being renewed; at least 100 ms. Mutexes may differ.
    std::chrono::milliseconds lease{15'000};
    /// How long a new grant is kept for somebody who does not take it; at most the lease.
    std::chrono::milliseconds claim_lease{4'000};
    /// How long the keys of a lock outlive its last use.
    std::chrono::milliseconds idle_time{60'000};
    /// The part of a lease after which it is renewed; between 0.05 and 0.9.
    double renew_fraction = 1.0 / 3;
    /// How long before its lease ends a holder is told that it lost; less than half of the claim lease.
    std::chrono::milliseconds loss_margin{50};
    /// How long a lock is granted to nobody if a server does not know it that has just been started, or that
    /// takes another's place: who held it before comes back meanwhile and goes on holding it. 0: not at all.
    /// To be of use, at least as long as the longest lease.
    std::chrono::milliseconds grace{0};
    /// How long the connection is silent before it is checked: a dead one is noticed after one to two of
    /// them. Above half of the server's longest pause, below a third of the lease.
    std::chrono::milliseconds health_check{500};
    /// How long finding, reaching and greeting the server may take each.
    std::chrono::milliseconds connect_timeout{1'000};
    /// The longest pause between two attempts to connect.
    std::chrono::milliseconds max_backoff{1'000};

    /// Receives what happens; may be empty.
    logger_type logger;
};

}  // namespace turnstile::redis

#endif
