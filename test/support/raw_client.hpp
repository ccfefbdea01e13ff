// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RAW_CLIENT_HPP
#define TURNSTILE_TEST_SUPPORT_RAW_CLIENT_HPP

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <poll.h>
#include <string>
#include <support/redis_server.hpp>
#include <vector>

namespace turnstile::test {

/// A persistent connection to a server, for subscriptions, which redis_command() does not support.
class raw_client
{
public:
    explicit raw_client(const redis_server& server)
    {
        socket_.connect({server.unix_socket().string()});
    }

    void send(const std::vector<std::string>& words)
    {
        std::string text = '*' + std::to_string(words.size()) + "\r\n";
        for (const std::string& each : words)
            text += '$' + std::to_string(each.size()) + "\r\n" + each + "\r\n";
        boost::asio::write(socket_, boost::asio::buffer(text));
    }

    /// Waits for a text from the server; returns whether it came.
    bool hear(const std::string& part)
    {
        while (heard_.find(part) == std::string::npos)
        {
            pollfd ready{socket_.native_handle(), POLLIN, 0};
            if (::poll(&ready, 1, 30'000) <= 0)
                return false;
            char chunk[4096];
            boost::system::error_code error;
            const std::size_t size = socket_.read_some(boost::asio::buffer(chunk), error);
            if (error)
                return false;
            heard_.append(chunk, size);
        }
        return true;
    }

    /// All received text.
    [[nodiscard]] const std::string& heard() const noexcept { return heard_; }

private:
    boost::asio::io_context context_;
    boost::asio::local::stream_protocol::socket socket_{context_};
    std::string heard_;
};

}  // namespace turnstile::test

#endif
