// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_REPLY_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_REPLY_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::redis::detail {

/// One value of a reply.
struct node
{
    /// The types of RESP3 that occur in replies of our scripts and commands.
    enum class kind
    {
        /// A number: its value in @ref node::integer, its text in @ref node::text.
        integer,
        /// Any kind of string, and any other type that has a text.
        text,
        /// An array: @ref node::size elements follow, each with its descendants.
        array,
        /// Null; also false and nil of a script.
        null,
        /// An error inside a reply; its text.
        error,
    };

    kind type = kind::null;
    std::size_t size = 0;
    std::int64_t integer = 0;
    std::string text{};
};

/// The result of a command.
struct reply
{
    enum class status
    {
        /// The server answered; the nodes contain the answer.
        ok,
        /// The server refused; the error contains its text.
        error,
        /// There will be no answer, and the server may or may not have executed the command. The error
        /// contains the reason.
        unknown,
    };

    status result = status::unknown;
    /// A tree in preorder.
    std::vector<node> nodes{};
    std::string error{};
};

/// The leaves of a reply, as text.
[[nodiscard]] inline std::vector<std::string> texts_of(reply answer)
{
    std::vector<std::string> result;
    result.reserve(answer.nodes.size());
    for (node& each : answer.nodes)
        if (each.type != node::kind::array)
            result.push_back(std::move(each.text));
    return result;
}

/// Called exactly once with the result of a command, or destroyed with its context.
using reply_handler = boost::asio::any_completion_handler<void(reply)>;

}  // namespace turnstile::redis::detail

#endif
