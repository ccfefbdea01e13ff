// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_SERVER_HPP
#define TURNSTILE_SERVICE_SERVER_HPP

#include "service/service.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>

namespace turnstile::service {

template <class Stream>
class connection;

/// The settings of the connections.
struct server_settings
{
    std::string address = "127.0.0.1";
    /// The port to listen on; 0 selects a free one.
    std::uint16_t port = 1880;
    /// The largest body of a request, in bytes.
    std::size_t max_body = std::size_t(64) * 1024;
    /// The largest head of a request, in bytes.
    std::size_t max_header = std::size_t(32) * 1024;
    std::size_t max_connections = 20'000;
    /// How long a client may take to send a request, or to receive an answer.
    std::chrono::seconds request_timeout{10};
    /// How long a connection may be idle between two requests.
    std::chrono::seconds idle_timeout{60};
    /// Files with the certificates and the key of TLS, in the format PEM; no TLS if they are empty.
    std::string certificate;
    std::string key;
};

/**
 * @brief Accepts connections and passes their requests to a @ref service.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context, which one thread runs.
 */
class server
{
public:
    /// Opens the port. Throws an exception if that is impossible, or if a certificate or key cannot
    /// be used.
    server(boost::asio::io_context& context, service& handler, server_settings settings);

    /// The port that the server listens on.
    [[nodiscard]] std::uint16_t port() const;

    /// Accepts connections until @ref close.
    void start();

    /// Stops accepting, and closes each connection after its present answer.
    void close();

private:
    template <class Stream>
    friend class connection;

    void listen();
    awaitable<void> accept();

    boost::asio::io_context& context_;
    service& service_;
    server_settings settings_;
    boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, executor> acceptor_;
    /// For each connection, what ends it if it waits for the first byte of its next request, perhaps in a TLS handshake.
    std::list<std::function<void()>> connections_;
    std::optional<boost::asio::ssl::context> tls_;
    bool closing_ = false;
};

}  // namespace turnstile::service

#endif
