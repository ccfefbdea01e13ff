// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_FAKE_SERVER_HPP
#define TURNSTILE_TEST_SUPPORT_FAKE_SERVER_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace turnstile::test {

/// A server with answers that the test chooses, for kinds of servers that are not available. Runs in its own thread.
class fake_server
{
public:
    /// Receives the words of a command and returns the bytes of the answer, on the server's thread.
    using answer = std::function<std::string(const std::vector<std::string>&)>;

    explicit fake_server(answer how)
        : how_(std::move(how))
    {
        boost::asio::co_spawn(context_, accept(), boost::asio::detached);
        thread_ = std::thread([this] { context_.run(); });
    }

    fake_server(const fake_server&) = delete;
    fake_server& operator=(const fake_server&) = delete;

    ~fake_server()
    {
        context_.stop();
        thread_.join();
    }

    [[nodiscard]] std::string url() const
    {
        return "redis://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
    }

private:
    using tcp = boost::asio::ip::tcp;
    using task = boost::asio::awaitable<void>;

    task accept()
    {
        for (;;)
        {
            tcp::socket socket = co_await acceptor_.async_accept(boost::asio::use_awaitable);
            boost::asio::co_spawn(context_, serve(std::move(socket)), boost::asio::detached);
        }
    }

    task serve(tcp::socket socket)
    {
        std::string buffer;
        try
        {
            for (;;)
            {
                std::vector<std::string> words(co_await number(socket, buffer));
                for (std::string& each : words)
                {
                    const std::size_t size = co_await number(socket, buffer);
                    if (buffer.size() < size + 2)
                        co_await boost::asio::async_read(
                            socket, boost::asio::dynamic_buffer(buffer),
                            boost::asio::transfer_exactly(size + 2 - buffer.size()),
                            boost::asio::use_awaitable);
                    each = buffer.substr(0, size);
                    buffer.erase(0, size + 2);
                }
                const std::string text = how_(words);
                co_await boost::asio::async_write(socket, boost::asio::buffer(text),
                                                  boost::asio::use_awaitable);
            }
        }
        catch (const boost::system::system_error&)  // NOLINT(bugprone-empty-catch)
        {
            // The client has disconnected.
        }
    }

    /// Reads a line such as *3 or $5.
    boost::asio::awaitable<std::size_t> number(tcp::socket& socket, std::string& buffer)
    {
        const std::size_t size = co_await boost::asio::async_read_until(
            socket, boost::asio::dynamic_buffer(buffer), "\r\n", boost::asio::use_awaitable);
        const std::size_t value = std::stoul(buffer.substr(1, size - 3));
        buffer.erase(0, size);
        co_return value;
    }

    answer how_;
    boost::asio::io_context context_;
    boost::asio::ip::tcp::acceptor acceptor_{context_,
                                             {boost::asio::ip::address_v4::loopback(), 0}};
    std::thread thread_;
};

}  // namespace turnstile::test

#endif
