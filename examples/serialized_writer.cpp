// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Many coroutines of a server write messages to one socket. A message is written in several pieces.
// Without a lock, pieces of other messages can come in between, and lines arrive torn.
//
// The program is its own client: it reads everything and counts the lines that arrived whole.

#include "common/program.hpp"
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <turnstile/async_mutex.hpp>
#include <turnstile/lock_guard.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

struct writer_options
{
    int writers = 20;
    int messages = 50;
    bool no_mutex = false;
};

/// The pieces of a message, as different parts of a program may produce them. Together they are
/// one line.
using message = std::array<std::string, 4>;

message make_message(int writer, int number)
{
    return {fmt::format("writer {}, ", writer), fmt::format("message {}: ", number),
            "from the first byte ", "to the last\n"};
}

// --- the server -----------------------------------------------------------------------------

/// A connection to a client, shared by all coroutines that write to it. The last one closes it.
class connection
{
public:
    connection(tcp::socket socket, bool with_mutex)
        : socket_(std::move(socket))
        , mutex_(socket_.get_executor(), "writers")
        , with_mutex_(with_mutex)
    {
    }

    /// Writes all pieces without interruption by other messages.
    asio::awaitable<void> send(const message& pieces)
    {
        turnstile::lock_guard<turnstile::async_mutex> guard;
        if (with_mutex_)
            guard = co_await mutex_.async_lock();

        for (const auto& piece : pieces)
            co_await asio::async_write(socket_, asio::buffer(piece), asio::deferred);
    }

private:
    tcp::socket socket_;
    turnstile::async_mutex mutex_;
    bool with_mutex_;
};

asio::awaitable<void> write_messages(std::shared_ptr<connection> to, int writer, int count)
{
    for (int number = 1; number <= count; ++number)
    {
        const auto pieces = make_message(writer, number);
        co_await to->send(pieces);
    }
}

asio::awaitable<void> serve_one_client(tcp::acceptor& acceptor, const writer_options& options)
{
    auto socket = co_await acceptor.async_accept(asio::deferred);
    const auto executor = socket.get_executor();
    const auto client = std::make_shared<connection>(std::move(socket), !options.no_mutex);
    for (int writer = 1; writer <= options.writers; ++writer)
        asio::co_spawn(executor, write_messages(client, writer, options.messages),
                       examples::rethrow);
}

// --- the client -----------------------------------------------------------------------------

/// Reads until the server closes the connection.
asio::awaitable<void> read_everything(tcp::endpoint server, std::string& received)
{
    tcp::socket socket{co_await asio::this_coro::executor};
    co_await socket.async_connect(server, asio::deferred);

    boost::system::error_code error;
    co_await asio::async_read(socket, asio::dynamic_buffer(received),
                              asio::redirect_error(asio::deferred, error));
    if (error != asio::error::eof)
        throw boost::system::system_error(error, "reading");
}

struct findings
{
    std::size_t whole = 0;
    std::size_t torn = 0;
    std::size_t missing = 0;
    std::vector<std::string> first_lines{};
};

/// Compares the received lines with the sent ones.
findings inspect(const std::string& received, const writer_options& options)
{
    std::set<std::string> expected;
    for (int writer = 1; writer <= options.writers; ++writer)
    {
        for (int number = 1; number <= options.messages; ++number)
        {
            auto line = fmt::format("{}", fmt::join(make_message(writer, number), ""));
            line.pop_back();
            expected.insert(std::move(line));
        }
    }

    findings result;
    std::istringstream stream(received);
    for (std::string line; std::getline(stream, line);)
    {
        const bool is_whole = expected.erase(line) == 1;
        ++(is_whole ? result.whole : result.torn);
        if (result.first_lines.size() < 5)
            result.first_lines.push_back(line);
    }
    result.missing = expected.size();
    return result;
}

int run(const writer_options& options)
{
    asio::io_context context;
    tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
    std::string received;

    asio::co_spawn(context, serve_one_client(acceptor, options), examples::rethrow);
    asio::co_spawn(context, read_everything(acceptor.local_endpoint(), received),
                   examples::rethrow);
    context.run();

    const auto result = inspect(received, options);
    fmt::print("The first lines that arrived:\n");
    for (const auto& line : result.first_lines)
        fmt::print("  {:.76}{}\n", line, line.size() > 76 ? "..." : "");
    fmt::print("\n{} writers sent {} messages each{}: {} arrived whole, {} lines were torn.\n",
               options.writers, options.messages, options.no_mutex ? " without a lock" : "",
               result.whole, result.torn);
    if (options.no_mutex)
        return 0;
    return result.torn == 0 && result.missing == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
try
{
    writer_options options;

    CLI::App app{"Many coroutines of a TCP server write messages to one socket, piece by piece.",
                 "serialized_writer"};
    app.add_option("--writers", options.writers, "Number of coroutines that write")
        ->check(examples::whole_number(1, 1000))
        ->capture_default_str();
    app.add_option("--messages", options.messages, "Number of messages per coroutine")
        ->check(examples::whole_number(1, 1000))
        ->capture_default_str();
    app.add_flag("--no-mutex", options.no_mutex, "Without a lock: lines arrive torn");
    CLI11_PARSE(app, argc, argv);

    return run(options);
}
catch (const std::exception& error)
{
    fmt::print(stderr, "serialized_writer: {}\n", error.what());
    return 1;
}
