// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_ERROR_OF_HPP
#define TURNSTILE_SRC_REDIS_SESSION_ERROR_OF_HPP

#include <string_view>
#include <turnstile/error.hpp>

#include "redis/protocol/client_result.hpp"

namespace turnstile::redis::detail {

/// The error code for a result of a client. @p text is the error text of the server, if there is one.
[[nodiscard]] error_code error_of(client_result result, std::string_view text = {});

/// The error code for a word by which a script refuses a call; `server_error` for all other words.
[[nodiscard]] error_code error_of_refusal(std::string_view word);

}  // namespace turnstile::redis::detail

#endif
