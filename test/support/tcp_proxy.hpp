// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_TCP_PROXY_HPP
#define TURNSTILE_TEST_SUPPORT_TCP_PROXY_HPP

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

namespace turnstile::test {

/**
 * @brief Stands between a client and a server and breaks what lies between them.
 *
 * Runs in a thread of its own. What is switched holds for the connections that there are, and for new
 * ones; when a function returns, it is in force.
 */
class tcp_proxy
{
public:
    /// The two ways through the proxy, as bits.
    enum direction : unsigned
    {
        none = 0,
        to_server = 1,
        to_client = 2,
        both = 3,
    };

    /// Passes everything to this port of the loopback.
    explicit tcp_proxy(std::uint16_t server_port);
    ~tcp_proxy();
    tcp_proxy(const tcp_proxy&) = delete;
    tcp_proxy& operator=(const tcp_proxy&) = delete;

    /// The port that clients connect to.
    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

    /// Reads and drops what goes there, too: the connections become half-open. `none` lets everything pass
    /// again, which shows each side a gap in what the other one said.
    void swallow(direction which);

    /// Holds back for so long what goes either way.
    void delay(std::chrono::milliseconds by);

    /// Closes new connections as soon as they are made, or not any more.
    void refuse(bool on);

    /// Closes all connections now.
    void cut();

    /// The same, and lets everything pass on those that follow: nobody sees a gap.
    void mend();

    /// Leads new connections to another server.
    void lead_to(std::uint16_t server_port);

    /// Connections that were accepted so far, the refused ones included.
    [[nodiscard]] std::size_t connections() const { return connections_; }
    [[nodiscard]] std::size_t refused() const { return refused_; }
    /// Bytes that came from clients and from servers, and those of them that were dropped.
    [[nodiscard]] std::size_t bytes_to_server() const { return bytes_[0]; }
    [[nodiscard]] std::size_t bytes_to_client() const { return bytes_[1]; }
    [[nodiscard]] std::size_t swallowed() const { return swallowed_; }

private:
    struct connection;
    class pump;

    template <class F>
    void run(F change);
    void close_all();
    void accept();
    void accepted(boost::asio::ip::tcp::socket client);

    boost::asio::io_context context_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::uint16_t port_;
    std::uint16_t server_port_;
    unsigned swallow_ = none;
    std::chrono::milliseconds delay_{0};
    bool refuse_ = false;
    std::list<std::weak_ptr<connection>> all_;
    std::atomic<std::size_t> connections_{0};
    std::atomic<std::size_t> refused_{0};
    std::atomic<std::size_t> bytes_[2]{};
    std::atomic<std::size_t> swallowed_{0};
    std::thread thread_;
};

}  // namespace turnstile::test

#endif
