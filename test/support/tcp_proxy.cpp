// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "tcp_proxy.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <future>
#include <string_view>
#include <tuple>
#include <utility>

namespace turnstile::test {

namespace asio = boost::asio;
using asio::ip::tcp;
using error_code = boost::system::error_code;

namespace {

/// A process that was forked meanwhile has a copy of the socket. So closing it would not notify the peer,
/// which would wait for an answer until that process ends.
void hang_up(tcp::socket& socket)
{
    error_code ignored;
    std::ignore = socket.shutdown(tcp::socket::shutdown_both, ignored);
    std::ignore = socket.close(ignored);
}

}  // namespace

/// The two sockets, and the two directions, which keep it alive until it is closed.
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
        // The destruction of the pumps may destroy this object.
        const auto last = std::exchange(pumps, {});
    }

    void resume();
    void close_when_idle();

    tcp::socket client;
    tcp::socket server;
    std::array<std::shared_ptr<pump>, 2> pumps;
    bool is_held = false;
    // One end was closed while the connection was held.
    bool is_over = false;
};

/// One direction. Data wait in a queue until they are due, so that delays do not add up.
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
                                      return self->stop_reading();
                                  if (self->is_cut_before(size))
                                      return self->sockets_->close();
                                  self->take(size);
                                  self->read();
                              });
    }

    /// Writes the held data.
    void resume()
    {
        if (!is_writing_ && !queue_.empty())
            wait();
    }

    [[nodiscard]] bool is_idle() const { return queue_.empty(); }

private:
    struct waiting
    {
        std::chrono::steady_clock::time_point due;
        std::string bytes;
    };

    void stop_reading()
    {
        // Held data have to be written first.
        if (sockets_->is_held)
            sockets_->is_over = true;
        else
            sockets_->close();
    }

    [[nodiscard]] bool is_cut_before(std::size_t size)
    {
        if (proxy_.cuts_left_ == 0 || which_ != to_server ||
            std::string_view(chunk_.data(), size).find(proxy_.cut_text_) == std::string_view::npos)
            return false;
        --proxy_.cuts_left_;
        ++proxy_.cuts_;
        return true;
    }

    void take(std::size_t size)
    {
        proxy_.bytes_[which_ == to_server ? 0 : 1] += size;
        if ((proxy_.swallow_ & which_) != 0)
        {
            proxy_.swallowed_ += size;
            return;
        }
        queue_.push_back({std::chrono::steady_clock::now() + proxy_.delay_, {chunk_.data(), size}});
        if (!is_writing_ && !sockets_->is_held)
            wait();
    }

    void wait()
    {
        is_writing_ = true;
        timer_.expires_at(queue_.front().due);
        timer_.async_wait([self = shared_from_this()](const error_code&) { self->write(); });
    }

    void write()
    {
        is_writing_ = false;
        if (sockets_->is_held)
            return;
        is_writing_ = true;
        asio::async_write(to_, asio::buffer(queue_.front().bytes),
                          [self = shared_from_this()](const error_code& error, std::size_t)
                          { self->written(error); });
    }

    void written(const error_code& error)
    {
        is_writing_ = false;
        if (error && !sockets_->is_over)
            return sockets_->close();
        if (error)
            queue_.clear();
        else
            queue_.pop_front();
        if (sockets_->is_held)
            return;
        if (!queue_.empty())
            wait();
        else if (sockets_->is_over)
            sockets_->close_when_idle();
    }

    tcp_proxy& proxy_;
    std::shared_ptr<connection> sockets_;
    tcp::socket& from_;
    tcp::socket& to_;
    direction which_;
    bool is_writing_ = false;
    asio::steady_timer timer_;
    std::deque<waiting> queue_;
    std::array<char, 65536> chunk_{};
};

void tcp_proxy::connection::resume()
{
    is_held = false;
    for (const auto& each : std::array(pumps))
        if (each)
            each->resume();
    if (is_over)
        close_when_idle();
}

void tcp_proxy::connection::close_when_idle()
{
    if (std::ranges::all_of(pumps, [](const auto& each) { return !each || each->is_idle(); }))
        close();
}

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
    close_all();
}

/// Runs a change on the proxy's thread, and returns when it is done.
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
    // Continues to drop the data of the directions that it dropped before, since TCP never delivers data
    // after a gap.
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

void tcp_proxy::hold(bool new_ones)
{
    run(
        [&]
        {
            holds_new_ones_ = new_ones;
            for (const auto& each : all_)
                if (const auto c = each.lock())
                    c->is_held = true;
        });
}

void tcp_proxy::hang_up_on_clients()
{
    run(
        [&]
        {
            for (const auto& each : all_)
                if (const auto c = each.lock(); c && c->is_held)
                {
                    c->is_over = true;
                    hang_up(c->client);
                }
        });
}

void tcp_proxy::resume()
{
    run(
        [&]
        {
            holds_new_ones_ = false;
            for (const auto& each : all_)
                if (const auto c = each.lock())
                    c->resume();
        });
}

void tcp_proxy::lead_to(std::uint16_t server_port)
{
    run([&] { server_port_ = server_port; });
}

void tcp_proxy::cut()
{
    run([&] { close_all(); });
}

void tcp_proxy::cut_before(const std::string& text, int times)
{
    run(
        [&]
        {
            cut_text_ = text;
            cuts_left_ = times;
        });
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
    // A connect on the loopback is fast.
    std::ignore = made->server.connect({asio::ip::address_v4::loopback(), server_port_}, error);
    if (error)
        return made->close();
    made->client.set_option(tcp::no_delay(true));
    made->server.set_option(tcp::no_delay(true));
    std::erase_if(all_, [](const auto& each) { return each.expired(); });
    all_.push_back(made);
    made->is_held = holds_new_ones_;
    made->pumps = {std::make_shared<pump>(*this, made, to_server),
                   std::make_shared<pump>(*this, made, to_client)};
    for (const auto& each : made->pumps)
        each->read();
}

}  // namespace turnstile::test
