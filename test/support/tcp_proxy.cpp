// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "tcp_proxy.hpp"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <future>
#include <tuple>
#include <utility>

namespace turnstile::test {

namespace asio = boost::asio;
using asio::ip::tcp;
using error_code = boost::system::error_code;

namespace {

/// A process that was forked meanwhile has the socket, too: closing alone would not tell the peer, which
/// would wait for an answer until that process ends.
void hang_up(tcp::socket& socket)
{
    error_code ignored;
    std::ignore = socket.shutdown(tcp::socket::shutdown_both, ignored);
    std::ignore = socket.close(ignored);
}

}  // namespace

/// The two sockets; closed when the last pump has ended.
struct tcp_proxy::connection
{
    explicit connection(tcp::socket from)
        : client(std::move(from))
        , server(client.get_executor())
    {
    }

    void close()
    {
        hang_up(client);
        hang_up(server);
    }

    tcp::socket client;
    tcp::socket server;
};

/// One direction: what is read waits in a queue until it is due, so that a delay is one of the line and
/// does not add up.
class tcp_proxy::pump : public std::enable_shared_from_this<pump>
{
public:
    pump(tcp_proxy& proxy, std::shared_ptr<connection> sockets, direction which)
        : proxy_(proxy)
        , sockets_(std::move(sockets))
        , from_(which == to_server ? sockets_->client : sockets_->server)
        , to_(which == to_server ? sockets_->server : sockets_->client)
        , which_(which)
        , timer_(from_.get_executor())
    {
    }

    void read()
    {
        from_.async_read_some(asio::buffer(chunk_),
                              [self = shared_from_this()](const error_code& error, std::size_t size)
                              {
                                  if (error)
                                      return self->sockets_->close();
                                  self->take(size);
                                  self->read();
                              });
    }

private:
    struct waiting
    {
        std::chrono::steady_clock::time_point due;
        std::string bytes;
    };

    void take(std::size_t size)
    {
        proxy_.bytes_[which_ == to_server ? 0 : 1] += size;
        if ((proxy_.swallow_ & which_) != 0)
        {
            proxy_.swallowed_ += size;
            return;
        }
        queue_.push_back({std::chrono::steady_clock::now() + proxy_.delay_, {chunk_.data(), size}});
        if (queue_.size() == 1)
            wait();
    }

    void wait()
    {
        timer_.expires_at(queue_.front().due);
        timer_.async_wait([self = shared_from_this()](const error_code&) { self->write(); });
    }

    void write()
    {
        asio::async_write(to_, asio::buffer(queue_.front().bytes),
                          [self = shared_from_this()](const error_code& error, std::size_t)
                          {
                              if (error)
                                  return self->sockets_->close();
                              self->queue_.pop_front();
                              if (!self->queue_.empty())
                                  self->wait();
                          });
    }

    tcp_proxy& proxy_;
    std::shared_ptr<connection> sockets_;
    tcp::socket& from_;
    tcp::socket& to_;
    direction which_;
    asio::steady_timer timer_;
    std::deque<waiting> queue_;
    std::array<char, 65536> chunk_{};
};

tcp_proxy::tcp_proxy(std::uint16_t server_port)
    : work_(context_.get_executor())
    , acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0))
    , port_(acceptor_.local_endpoint().port())
    , server_port_(server_port)
{
    accept();
    thread_ = std::thread([this] { context_.run(); });
}

tcp_proxy::~tcp_proxy()
{
    context_.stop();
    thread_.join();
}

/// Does something on the proxy's thread, and returns when it is done.
template <class F>
void tcp_proxy::run(F change)
{
    std::promise<void> done;
    asio::post(context_,
               [&]
               {
                   change();
                   done.set_value();
               });
    done.get_future().wait();
}

void tcp_proxy::swallow(direction which)
{
    // Not instead of what is swallowed already: a gap in a stream that goes on is nothing that TCP would do.
    run([&] { swallow_ = which == none ? none : swallow_ | which; });
}

void tcp_proxy::delay(std::chrono::milliseconds by)
{
    run([&] { delay_ = by; });
}

void tcp_proxy::refuse(bool on)
{
    run([&] { refuse_ = on; });
}

void tcp_proxy::lead_to(std::uint16_t server_port)
{
    run([&] { server_port_ = server_port; });
}

void tcp_proxy::cut()
{
    run([&] { close_all(); });
}

void tcp_proxy::mend()
{
    run(
        [&]
        {
            close_all();
            swallow_ = none;
        });
}

void tcp_proxy::close_all()
{
    for (const auto& each : std::exchange(all_, {}))
        if (const auto c = each.lock())
            c->close();
}

void tcp_proxy::accept()
{
    acceptor_.async_accept(
        [this](const error_code& error, tcp::socket client)
        {
            if (error)
                return;
            accepted(std::move(client));
            accept();
        });
}

void tcp_proxy::accepted(tcp::socket client)
{
    ++connections_;
    if (refuse_)
    {
        ++refused_;
        return hang_up(client);
    }
    auto made = std::make_shared<connection>(std::move(client));
    error_code error;
    // Of the loopback: this does not take long.
    std::ignore = made->server.connect({asio::ip::address_v4::loopback(), server_port_}, error);
    if (error)
        return made->close();
    made->client.set_option(tcp::no_delay(true));
    made->server.set_option(tcp::no_delay(true));
    std::erase_if(all_, [](const auto& each) { return each.expired(); });
    all_.push_back(made);
    std::make_shared<pump>(*this, made, to_server)->read();
    std::make_shared<pump>(*this, made, to_client)->read();
}

}  // namespace turnstile::test
