// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_REQUEST_HEADER_HPP
#define TURNSTILE_SERVICE_REQUEST_HEADER_HPP

#include <boost/beast/http/message.hpp>
#include <string>
#include <string_view>

// Rules for the header of a request. Beast checks only its syntax.

namespace turnstile::service {

/// An id that no other server uses, for the log lines of a request that went through several services.
[[nodiscard]] std::string new_request_id();

/// Whether a client may name its request like this.
[[nodiscard]] bool is_request_id(std::string_view text) noexcept;

/// Removes the scheme and the authority of a target in absolute form, and returns the authority; empty for another
/// form.
std::string_view take_authority(std::string_view& target);

/// The rule that the header breaks, although its syntax is right; empty if there is none.
[[nodiscard]] std::string broken_rule(const boost::beast::http::request_header<>& header);

}  // namespace turnstile::service

#endif
