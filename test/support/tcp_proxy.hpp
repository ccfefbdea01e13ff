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
 * @brief Forwards connections between clients and a server, and causes faults.
 *
 * Runs in its own thread. Each setting applies to existing and new connections, and takes effect before the
 * function returns.
 */
class tcp_proxy
{
public:
    /// The two directions, as bits.
    enum direction : unsigned
    {
        none = 0,
        to_server = 1,
        to_client = 2,
        both = 3,
    };

    /// Forwards to this port of the loopback.
    explicit tcp_proxy(std::uint16_t server_port);
    ~tcp_proxy();
    tcp_proxy(const tcp_proxy&) = delete;
    tcp_proxy& operator=(const tcp_proxy&) = delete;

    /// The port that clients connect to.
    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

    /// Also reads and drops all data in this direction: the connections become half-open. `none` forwards
    /// all data again, so each side sees a gap in the other's data.
    void swallow(direction which);

    /// Delays all data in both directions.
    void delay(std::chrono::milliseconds by);

    /// Whether to close new connections at once.
    void refuse(bool on);

    /// Closes all connections now.
    void cut();

    /// Keeps clients disconnected until refuse(false).
    void disconnect()
    {
        refuse(true);
        cut();
    }

    /// The next @p times that a client sends data that contain a text, closes its connection instead of forwarding them.
    void cut_before(const std::string& text, int times);

    /// Closes all connections, and forwards all data on later ones: neither side sees a gap.
    void mend();

    /// Holds the data in both directions on existing connections and, with `true`, on new ones. No data are lost:
    /// after resume(), the server also receives data of a client that has closed its end meanwhile.
    void hold(bool new_ones = false);

    /// Closes the clients' ends of the held connections.
    void hang_up_on_clients();

    /// Forwards the held data.
    void resume();

    /// Forwards new connections to another server.
    void lead_to(std::uint16_t server_port);

    /// The number of accepted connections, including refused ones.
    [[nodiscard]] std::size_t connections() const { return connections_; }
    [[nodiscard]] std::size_t refused() const { return refused_; }
    /// The bytes from clients and from servers, including dropped ones.
    [[nodiscard]] std::size_t bytes_to_server() const { return bytes_[0]; }
    [[nodiscard]] std::size_t bytes_to_client() const { return bytes_[1]; }
    [[nodiscard]] std::size_t swallowed() const { return swallowed_; }
    /// How many connections cut_before() has closed.
    [[nodiscard]] std::size_t cuts() const { return cuts_; }

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
    bool holds_new_ones_ = false;
    std::string cut_text_;
    int cuts_left_ = 0;
    std::list<std::weak_ptr<connection>> all_;
    std::atomic<std::size_t> connections_{0};
    std::atomic<std::size_t> refused_{0};
    std::atomic<std::size_t> bytes_[2]{};
    std::atomic<std::size_t> swallowed_{0};
    std::atomic<std::size_t> cuts_{0};
    std::thread thread_;
};

}  // namespace turnstile::test

#endif
