// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_BOOST_REDIS_CONFIG_HPP
#define TURNSTILE_SRC_REDIS_BOOST_REDIS_CONFIG_HPP

#include <boost/asio/ssl/context.hpp>
#include <boost/redis/config.hpp>
#include <boost/redis/logger.hpp>
#include <memory>
#include <openssl/ssl.h>
#include <string>
#include <turnstile/redis/config.hpp>

// Our configuration in Boost.Redis' words.

namespace turnstile::redis::detail {

/// The settings of one run, with the set-up that subscribes to the channel.
[[nodiscard]] boost::redis::config make_redis_config(const config& settings,
                                                     const std::string& channel);

/// What only the log of Boost.Redis tells.
struct log_findings
{
    /// What the server answered to a set-up that failed.
    std::string diagnostic;
    /// What the sentinels call the master.
    std::string master_host;
};

/// What TLS trusts: who signed a certificate, and for whom. A file of certificates that cannot be read throws
/// a redis_error.
[[nodiscard]] boost::asio::ssl::context make_tls_context(
    const config& settings, std::shared_ptr<const log_findings> findings);

/// Tells a server that serves several names which of them is wanted, unless it is an address. To be called
/// before the handshake.
void set_tls_name(SSL* stream, const config& settings);

/// A logger that writes nothing to stderr; it hands on what Boost.Redis says to our own, for developers, and
/// finds out what is to be learned in no other way.
[[nodiscard]] boost::redis::logger make_redis_logger(const config& settings,
                                                     std::shared_ptr<log_findings> findings);

}  // namespace turnstile::redis::detail

#endif
