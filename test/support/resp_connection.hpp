// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_RESP_CONNECTION_HPP
#define TURNSTILE_TEST_SUPPORT_RESP_CONNECTION_HPP

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <vector>

#include "redis_store.hpp"

namespace turnstile::test {

/// A blocking connection to a real server, with replies of the same type as those of the simulated one.
class resp_connection
{
public:
    explicit resp_connection(const std::string& unix_socket) { socket_.connect({unix_socket}); }

    redis_reply ask(const std::vector<std::string>& words)
    {
        send(words);
        return read();
    }

    void send(const std::vector<std::string>& words)
    {
        std::string text = '*' + std::to_string(words.size()) + "\r\n";
        for (const std::string& each : words)
            text += '$' + std::to_string(each.size()) + "\r\n" + each + "\r\n";
        boost::asio::write(socket_, boost::asio::buffer(text));
    }

    redis_reply read()
    {
        const std::string line = read_line();
        const std::string rest = line.substr(1);
        redis_reply reply;
        switch (line[0])
        {
        case '+':
            reply = {redis_reply::kind::status, 0, rest, {}};
            break;
        case '-':
            reply = redis_reply::error(rest);
            break;
        case ':':
            reply = redis_reply::of(std::stoll(rest));
            break;
        case '$':
            if (rest != "-1")
                reply = redis_reply::of(read_exactly(std::stoul(rest)));
            break;
        default:
            reply.what = redis_reply::kind::array;
            for (long long i = std::stoll(rest); i > 0; --i)
                reply.elements.push_back(read());
        }
        return reply;
    }

private:
    std::string read_line()
    {
        const std::size_t size =
            boost::asio::read_until(socket_, boost::asio::dynamic_buffer(buffer_), "\r\n");
        std::string line = buffer_.substr(0, size - 2);
        buffer_.erase(0, size);
        return line;
    }

    std::string read_exactly(std::size_t size)
    {
        if (buffer_.size() < size + 2)
            boost::asio::read(socket_, boost::asio::dynamic_buffer(buffer_),
                              boost::asio::transfer_exactly(size + 2 - buffer_.size()));
        std::string text = buffer_.substr(0, size);
        buffer_.erase(0, size + 2);
        return text;
    }

    boost::asio::io_context context_;
    boost::asio::local::stream_protocol::socket socket_{context_};
    std::string buffer_;
};

}  // namespace turnstile::test

#endif
