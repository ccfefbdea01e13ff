// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_STORE_HPP
#define TURNSTILE_EXAMPLES_REDIS_STORE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <turnstile/redis/config.hpp>
#include <vector>

namespace examples {

/// The data that the examples protect with their locks: plain commands, and their answers as text.
class store
{
public:
    /// Connects to the server of a configuration.
    store(const boost::asio::any_io_executor& executor, const turnstile::redis::config& settings);
    ~store();
    store(const store&) = delete;
    store& operator=(const store&) = delete;

    /// Sends a command. Its answer has one element for each value; an error is thrown.
    template <class... Words>
    boost::asio::awaitable<std::vector<std::string>> command(const Words&... words)
    {
        return send({std::string(words)...});
    }

    /// @copydoc command
    boost::asio::awaitable<std::vector<std::string>> send(std::vector<std::string> words);

    /// Ends the connection, so that the context can come to its end.
    void close();

private:
    struct link;

    std::shared_ptr<link> link_;
};

}  // namespace examples

#endif
