// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_REPLY_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_REPLY_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::redis::detail {

/// The result of a command.
struct reply
{
    enum class status
    {
        /// The server answered.
        ok,
        /// The server refused; the error contains its text.
        error,
        /// There will be no answer, and the server may or may not have executed the command. The error
        /// contains the reason.
        unknown,
    };

    status result = status::unknown;
    /// The values in the answer, without the structure of its arrays. A number is its digits, and null is empty.
    std::vector<std::string> texts{};
    std::string error{};

    /// The first of the texts; empty if there is none.
    [[nodiscard]] std::string_view text() const
    {
        return texts.empty() ? std::string_view() : texts.front();
    }
};

/// Called exactly once with the result of a command, or destroyed with its context.
using reply_handler = boost::asio::any_completion_handler<void(reply)>;

}  // namespace turnstile::redis::detail

#endif
