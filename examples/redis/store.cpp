// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "store.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/consign.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/logger.hpp>
#include <boost/redis/resp3/flat_tree.hpp>
#include <boost/redis/response.hpp>
#include <chrono>
#include <stdexcept>
#include <tuple>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/session.hpp>

namespace examples {

namespace {

boost::redis::config settings_of(const turnstile::redis::config& given)
{
    boost::redis::config result;
    result.addr.host = given.server.host;
    result.addr.port = std::to_string(given.server.port);
    result.unix_socket = given.unix_socket;
    if (!given.username.empty())
        result.username = given.username;
    result.password = given.password;
    result.database_index = given.database;
    // The connection has to survive while the process is stopped, however long that is.
    result.health_check_interval = std::chrono::seconds{0};
    return result;
}

}  // namespace

void require_server(const turnstile::redis::config& settings)
{
    // The store would send its commands without encryption, or to another server.
    if (settings.tls || !settings.sentinels.empty())
        throw std::runtime_error(settings.server_name() +
                                 ": the examples use neither TLS nor sentinels; name the server by "
                                 "redis:// or unix://");
    boost::asio::io_context context;
    turnstile::redis::session session{context, settings};
    const auto connect = [&]() -> boost::asio::awaitable<void>
    {
        // The server may be starting.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
        auto [error] = co_await session.async_ready(boost::asio::as_tuple);
        while (error == turnstile::redis::errc::unreachable &&
               std::chrono::steady_clock::now() < end)
            std::tie(error) = co_await session.async_ready(boost::asio::as_tuple);
        if (error)
            throw std::runtime_error(settings.server_name() + ": " + error.message());
        co_await session.async_close(boost::asio::as_tuple);
    };
    boost::asio::co_spawn(context, connect(), rethrow);
    context.run();
}

struct store::link
{
    explicit link(const boost::asio::any_io_executor& executor)
        : connection(executor, boost::redis::logger(boost::redis::logger::level::disabled))
    {
    }

    boost::redis::connection connection;
};

store::store(const boost::asio::any_io_executor& executor, const turnstile::redis::config& settings)
    : link_(std::make_shared<link>(executor))
{
    link_->connection.async_run(settings_of(settings),
                                boost::asio::consign(boost::asio::detached, link_));
}

store::~store()
{
    close();
}

void store::close()
{
    link_->connection.cancel();
}

boost::asio::awaitable<std::vector<std::string>> store::send(std::vector<std::string> words)
{
    boost::redis::request request;
    request.push_range(words.front(), words.begin() + 1, words.end());
    boost::redis::generic_response response;
    co_await link_->connection.async_exec(request, response, boost::asio::deferred);
    if (response.has_error())
        throw std::runtime_error(words.front() + ": " + response.error().diagnostic);
    std::vector<std::string> result;
    for (const auto& node : response.value())
        if (node.aggregate_size == 1)
            result.push_back(node.value);
    co_return result;
}

}  // namespace examples
