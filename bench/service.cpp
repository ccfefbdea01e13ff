// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// What bench/service.sh needs beside turnstile-server:
//
//   bench_service bare PORT          a server of Boost.Beast that answers each request with the same bytes
//   bench_service create PORT COUNT  creates semaphores
//   bench_service wait PORT COUNT    clients that wait for a unit until the standard input ends

#include "service/http_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using executor = asio::io_context::executor_type;
template <class T>
using awaitable = asio::awaitable<T, executor>;
using stream = boost::beast::basic_stream<tcp, executor>;
using turnstile::test::http_client;
using turnstile::test::request_text;

constexpr auto as_result = asio::as_tuple(asio::deferred);

awaitable<void> answer(stream client)
{
    boost::beast::flat_buffer buffer;
    while (true)
    {
        http::request<http::string_body> asked;
        auto [unread, received] = co_await http::async_read(client, buffer, asked, as_result);
        if (unread)
            co_return;
        http::response<http::string_body> constant(http::status::ok, asked.version());
        constant.set(http::field::content_type, "application/json");
        constant.body() = R"({"name":"a","value":1})";
        constant.prepare_payload();
        auto [unsent, sent] = co_await http::async_write(client, constant, as_result);
        if (unsent)
            co_return;
    }
}

awaitable<void> accept(asio::io_context& context, std::uint16_t port)
{
    asio::basic_socket_acceptor<tcp, executor> acceptor(
        context, tcp::endpoint(asio::ip::address_v4::loopback(), port));
    while (true)
    {
        auto [error, socket] = co_await acceptor.async_accept(as_result);
        if (error)
            co_return;
        socket.set_option(tcp::no_delay(true));
        asio::co_spawn(context.get_executor(), answer(stream(std::move(socket))), asio::detached);
    }
}

void serve(std::uint16_t port)
{
    asio::io_context context(1);
    asio::co_spawn(context.get_executor(), accept(context, port), asio::detached);
    context.run();
}

void expect(const turnstile::test::http_answer& answer)
{
    if (answer.status != 200)
        throw std::runtime_error("the server answers " + std::to_string(answer.status));
}

void create(const std::string& port, int count)
{
    http_client client({"127.0.0.1", port});
    for (int i = 0; i < count; ++i)
    {
        client.send(request_text("POST", "/semaphore",
                                 R"({"name":"semaphore )" + std::to_string(i) + R"(","value":1})"));
        expect(client.receive());
    }
}

void wait(const std::string& port, int count)
{
    const turnstile::test::site server{"127.0.0.1", port};
    http_client control(server);
    for (const char* const target : {"/semaphore", "/semaphore/down"})
    {
        control.send(request_text("POST", target, R"({"name":"a","value":1})"));
        expect(control.receive());
    }
    std::vector<std::unique_ptr<http_client>> waiters;
    for (int i = 0; i < count; ++i)
    {
        waiters.push_back(std::make_unique<http_client>(server));
        waiters.back()->send(
            request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600})"));
    }
    const std::string all = "\"waiters\":" + std::to_string(count) + ',';
    std::string list;
    do
    {
        control.send(request_text("GET", "/semaphore"));
        list = control.receive().body;
    } while (list.find(all) == std::string::npos);
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
}

}  // namespace

int main(int argc, char** argv)
{
    try
    {
        const std::vector<std::string> words(argv + 1, argv + argc);
        if (words.size() == 2 && words[0] == "bare")
            serve(static_cast<std::uint16_t>(std::stoi(words[1])));
        else if (words.size() == 3 && words[0] == "create")
            create(words[1], std::stoi(words[2]));
        else if (words.size() == 3 && words[0] == "wait")
            wait(words[1], std::stoi(words[2]));
        else
            throw std::runtime_error("see bench/service.sh");
        return 0;
    }
    catch (const std::exception& error)
    {
        std::cerr << "bench_service: " << error.what() << '\n';
        return 1;
    }
}
