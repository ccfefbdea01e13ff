// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_BOOST_REDIS_CONFIG_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_BOOST_REDIS_CONFIG_HPP

#include <boost/asio/ssl/context.hpp>
#include <boost/redis/config.hpp>
#include <boost/redis/logger.hpp>
#include <memory>
#include <openssl/ssl.h>
#include <string>
#include <turnstile/redis/config.hpp>

#include "redis/transport/link.hpp"

// Converts our configuration to that of Boost.Redis.

namespace turnstile::redis::detail {

/// The settings of one link; its set-up subscribes to the channel.
[[nodiscard]] boost::redis::config make_redis_config(const config& settings,
                                                     const std::string& channel);

/// The trusted certificates and the client's own. Throws a redis_error if a file cannot be read.
[[nodiscard]] boost::asio::ssl::context make_tls_context(const config& settings,
                                                         std::shared_ptr<link_findings> findings);

/// Sends the name of the server in the TLS handshake (SNI), unless it is an address. To be called before the
/// handshake.
void set_tls_name(SSL* stream, const config& settings);

/// A logger that forwards the log of Boost.Redis to ours, at the level debug, and extracts the findings from
/// it.
[[nodiscard]] boost::redis::logger make_redis_logger(const config& settings,
                                                     std::shared_ptr<link_findings> findings);

}  // namespace turnstile::redis::detail

#endif
