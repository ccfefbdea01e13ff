// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_REPLY_HPP
#define TURNSTILE_SRC_REDIS_REPLY_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace turnstile::redis::detail {

/// One value of a reply.
struct node
{
    /// What there is of RESP3, as far as scripts and our commands answer with it.
    enum class kind
    {
        /// A number; stands in @ref node::integer, and as it came in @ref node::text.
        integer,
        /// Any kind of string, and what else has a text.
        text,
        /// Its elements follow: as many values as @ref node::size says, each with all that is below it.
        array,
        /// Nothing; what false and nil in a script become.
        null,
        /// An error inside of a reply; its text.
        error,
    };

    kind type = kind::null;
    std::size_t size = 0;
    std::int64_t integer = 0;
    std::string text{};
};

/// What became of a command.
struct reply
{
    /// The three things that can become of it.
    enum class status
    {
        /// The server answered; the nodes are the answer.
        ok,
        /// The server refused; the error is its text.
        error,
        /// No answer will come: executed or not, nobody knows. The error says why.
        unknown,
    };

    status result = status::unknown;
    /// A tree in preorder.
    std::vector<node> nodes{};
    std::string error{};
};

/// Called exactly once with what became of a command, or destroyed with its context.
using reply_handler = boost::asio::any_completion_handler<void(reply)>;

}  // namespace turnstile::redis::detail

#endif
