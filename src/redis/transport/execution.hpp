// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_TRANSPORT_EXECUTION_HPP
#define TURNSTILE_SRC_REDIS_TRANSPORT_EXECUTION_HPP

#include <algorithm>
#include <boost/redis/request.hpp>
#include <boost/redis/resp3/node.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "redis/transport/reply.hpp"
#include "redis/transport/request_word.hpp"
#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

/// A command in flight.
class execution
{
public:
    /// Composes the request.
    void prepare(std::string_view command, std::span<const request_word> arguments,
                 reply_handler then)
    {
        request.clear();
        if (arguments.empty())
            request.push(command);
        else
            request.push_range(command, arguments.begin(), arguments.end());
        handler = std::move(then);
    }

    /// Adds a part of the reply.
    void add(const boost::redis::resp3::node_view& from)
    {
        using boost::redis::resp3::type;
        if (from.depth == 0)
        {
            result_.texts.clear();
            result_.result = reply::status::ok;
            if (from.data_type == type::simple_error || from.data_type == type::blob_error)
                return refuse(from.value);
            // Arrays in replies of our scripts are rarely larger.
            result_.texts.reserve(std::clamp<std::size_t>(from.aggregate_size, 1, max_reserved));
        }
        if (!is_aggregate(from.data_type))
            result_.texts.emplace_back(from.value);
    }

    /// Whether the server has answered that it does not know the script, which has not been loaded again since.
    [[nodiscard]] bool has_forgotten_script() const
    {
        return source != nullptr && result_.result == reply::status::error &&
               result_.error.starts_with("NOSCRIPT");
    }

    /// The server's error in the reply; empty if there is none.
    [[nodiscard]] std::string_view error() const { return result_.error; }

    /// Sets the reason why there is no reply.
    void fail(std::string text)
    {
        result_ = reply{};
        result_.error = std::move(text);
    }

    /// Calls the handler with the reply or the failure. The execution may be reused while the handler runs.
    void answer()
    {
        reply_handler then = std::exchange(handler, nullptr);
        std::move(then)(std::exchange(result_, reply{}));
    }

    boost::redis::request request;
    reply_handler handler;
    /// The script of the command, until it has been loaded again.
    const script* source = nullptr;

private:
    static constexpr std::size_t max_reserved = 64;

    void refuse(std::string_view text)
    {
        result_.result = reply::status::error;
        result_.error = text;
    }

    reply result_;
};

}  // namespace turnstile::redis::detail

#endif
