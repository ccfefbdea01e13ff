// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_NOTIFY_HPP
#define TURNSTILE_SERVICE_NOTIFY_HPP

#include "service/message.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/redis/lease_clock.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace turnstile::service {

/// The settings of call-backs.
struct notify_settings
{
    /// The receivers that clients may name, as `host` (port 80 for http, 443 for https) or `host:port`. Without any,
    /// there are no call-backs.
    std::vector<std::string> hosts;
    /// The key of the signatures.
    std::string secret;
    /// The file with the certificates of the authorities that are trusted for https receivers. If empty, those of the
    /// system are trusted.
    std::string authorities;
    /// The largest number of call-backs that wait or are being sent.
    std::size_t most = 1000;
    /// The number of attempts for each call-back.
    int attempts = 5;
};

/// The parts of a URL.
struct notify_target
{
    /// Whether the scheme is https.
    bool tls = false;
    std::string host;
    std::string port;
    std::string path;
};

/// The parts of `http[s]://HOST[:PORT][/PATH]`. Nothing if @p url is something else.
[[nodiscard]] std::optional<notify_target> parse_url(std::string_view url);

/// The HMAC-SHA256 of a text, as 64 hexadecimal digits.
[[nodiscard]] std::string sign(std::string_view secret, std::string_view text);

/**
 * @brief Sends call-backs.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class notifier
{
public:
    using clock = redis::lease_clock;

    /// @throws std::runtime_error  if the file with authorities cannot be used.
    notifier(boost::asio::io_context& context, notify_settings settings);

    /// Whether the operator has allowed calls to the host and port of @p target.
    [[nodiscard]] bool allows(const notify_target& target) const;

    /// Posts @p body until the receiver answers with a status 2xx. It follows no redirects. A receiver with https needs
    /// a valid certificate for its name. No attempt lasts longer than until @p end. Returns false if all attempts
    /// failed, or after @ref close. @p target has to live until then.
    awaitable<bool> deliver(const notify_target& target, std::string body, clock::time_point end);

    /// Ends all attempts.
    void close();

private:
    struct delivery;
    struct lookup;

    awaitable<std::vector<boost::asio::ip::address>> addresses_of(std::string host);
    awaitable<bool> attempt(delivery& state, const notify_target& target, const std::string& text,
                            clock::time_point end);

    boost::asio::io_context& context_;
    notify_settings settings_;
    boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
    std::unordered_set<delivery*> deliveries_;
    std::unordered_map<std::string, std::shared_ptr<lookup>> lookups_;
    bool closing_ = false;
};

}  // namespace turnstile::service

#endif
