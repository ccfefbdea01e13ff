// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Checks that the code of the README works. readme.sh compares the two texts.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

struct message
{
    std::string header;
    std::string body;
};

}  // namespace

// [README]
#include <turnstile/async_mutex.hpp>

struct connection
{
    asio::awaitable<void> send(const message& m)
    {
        auto guard = co_await mutex.async_lock();  // suspends; first come, first served
        co_await asio::async_write(socket, asio::buffer(m.header));
        co_await asio::async_write(socket, asio::buffer(m.body));
    }  // the guard hands the lock over to the next waiter

    tcp::socket socket;
    turnstile::async_mutex mutex{socket.get_executor()};
};
// [README]

BOOST_AUTO_TEST_CASE(messages_arrive_whole)
{
    asio::io_context context;
    tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
    tcp::socket client{context};
    client.connect(acceptor.local_endpoint());
    connection server{acceptor.accept()};

    const message first{"first ", "message. "};
    const message second{"second ", "message."};
    asio::co_spawn(context, server.send(first), asio::detached);
    asio::co_spawn(context, server.send(second), asio::detached);
    context.run();
    server.socket.close();

    std::string received;
    boost::system::error_code end;
    asio::read(client, asio::dynamic_buffer(received), end);
    BOOST_TEST(received == "first message. second message.");
}
