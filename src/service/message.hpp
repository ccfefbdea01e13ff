// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_MESSAGE_HPP
#define TURNSTILE_SERVICE_MESSAGE_HPP

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::service {

/// The server runs on one thread, so neither semaphores nor connections need locks.
using executor = boost::asio::io_context::executor_type;

template <class T>
using awaitable = boost::asio::awaitable<T, executor>;

using timer = boost::asio::basic_waitable_timer<
    std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, executor>;

/// Yields the error of an operation, and its result, instead of throwing.
inline constexpr auto as_result = boost::asio::as_tuple(boost::asio::deferred);

/// A request; it views the buffers of its connection.
struct request
{
    std::string_view method;
    std::string_view target;
    std::string_view content_type;
    std::string_view authorization;
    /// The site of the web page that sends the request; nothing if no page does.
    std::optional<std::string_view> origin;
    std::string_view host;
    std::string_view body;
    /// The address of the client, without its port.
    std::string_view client;
};

/// The answer to a request.
struct response
{
    static constexpr std::string_view text = "text/plain; charset=utf-8";
    static constexpr std::string_view json = "application/json";

    unsigned status = 200;
    std::string_view content_type = text;
    std::string body;
    /// Further header lines, each with its CRLF.
    std::string headers;

    /// If set, the answer takes time: the connection awaits the result of this call as its answer, and cancels
    /// the call if the client hangs up. The other members have no meaning then.
    std::function<awaitable<response>()> later;

    /// If set, the answer has more parts: the connection calls this again and again, and sends the body of each
    /// result until one is empty. Then it closes. It cancels the call if the client hangs up.
    std::function<awaitable<response>()> next;

    /// If set, the connection calls it when it could not send the answer.
    std::function<void()> undo;

    /// Whether the connection checks that the client is still there before it sends the answer: sending to a client
    /// that has hung up may succeed. Not set if the request does not wait and its answer was ready at once, so that a
    /// client may end its sending side after it.
    bool checks_client = false;
};

}  // namespace turnstile::service

#endif
