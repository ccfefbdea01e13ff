// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_PARSE_URL_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_PARSE_URL_HPP

#include <string_view>
#include <turnstile/redis/config.hpp>

namespace turnstile::redis::detail {

/// Parses a URL into a configuration, see config::from_url. Throws a redis_error if the URL is malformed;
/// does not check the values.
void parse_url(std::string_view url, config& to);

}  // namespace turnstile::redis::detail

#endif
