// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_REDIS_STORE_HPP
#define TURNSTILE_EXAMPLES_REDIS_STORE_HPP

#include "common/program.hpp"
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <turnstile/redis/config.hpp>
#include <vector>

namespace examples {

/// Throws if the server of the configuration cannot be used. Call it first, and before processes are forked: a store
/// would wait for the server for ever, without a message.
void require_server(const turnstile::redis::config& settings);

/// The data that the examples protect with locks: plain commands, and their replies as text.
class store
{
public:
    /// Connects to the server of the configuration, without TLS and sentinels.
    store(const boost::asio::any_io_executor& executor, const turnstile::redis::config& settings);
    ~store();
    store(const store&) = delete;
    store& operator=(const store&) = delete;

    /// Sends a command. The reply has one element for each value; an error reply is thrown.
    template <class... Words>
    boost::asio::awaitable<std::vector<std::string>> command(const Words&... words)
    {
        return send({std::string(words)...});
    }

    /// @copydoc command
    boost::asio::awaitable<std::vector<std::string>> send(std::vector<std::string> words);

    /// Closes the connection, so that the context can run out of work.
    void close();

private:
    struct link;

    std::shared_ptr<link> link_;
};

/// A whole number in a field of a hash; 0 if the field is absent.
inline boost::asio::awaitable<int> read_number(store& store, std::string key, std::string field)
{
    const auto answer = co_await store.command("HINCRBY", key, field, "0");
    co_return std::stoi(answer.at(0));
}

/// Runs @p body with a store in a context that ends with this call: no context may exist when processes
/// are forked.
///
/// @param body an `awaitable<void>(store&)`.
template <class Body>
void with_store(const turnstile::redis::config& settings, Body body)
{
    boost::asio::io_context context;
    store store{context.get_executor(), settings};
    const auto run = [&]() -> boost::asio::awaitable<void>
    {
        co_await body(store);
        store.close();
    };
    boost::asio::co_spawn(context, run(), rethrow);
    context.run();
}

}  // namespace examples

#endif
