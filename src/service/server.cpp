// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/server.hpp"

#include "service/log.hpp"
#include "service/request_header.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>
#include <exception>
#include <fmt/chrono.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <type_traits>
#include <utility>

namespace turnstile::service {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

/// The value of the header Date, renewed once per second.
const std::string& date()
{
    static std::time_t last = 0;
    static std::string text;
    const std::time_t now = std::time(nullptr);
    if (now != last)
    {
        text = fmt::format("{:%a, %d %b %Y %T GMT}", fmt::gmtime(now));
        last = now;
    }
    return text;
}

}  // namespace

using plain_stream = beast::basic_stream<tcp, executor>;
using tls_stream = asio::ssl::stream<plain_stream>;

/// A client with one kind of stream, plain or TLS. It exists as long as its coroutine.
template <class Stream>
class connection
{
public:
    template <class... Arguments>
    connection(server& owner, std::string client, Arguments&&... arguments)
        : owner_(owner)
        , client_(std::move(client))
        , stream_(std::forward<Arguments>(arguments)...)
    {
        close_if_idle_ = owner_.connections_.insert(owner_.connections_.end(),
                                                    [this]
                                                    {
                                                        if (idle_)
                                                            transport().cancel();
                                                    });
    }

    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    ~connection() { owner_.connections_.erase(close_if_idle_); }

    awaitable<void> run()
    {
        if constexpr (is_encrypted)
        {
            transport().expires_after(owner_.settings_.request_timeout);
            auto [error] =
                co_await stream_.async_handshake(asio::ssl::stream_base::server, as_result);
            if (error)
            {
                log(log_level::debug, "TLS handshake failed",
                    {{"client", client_}, {"error", error.message()}});
                co_return;
            }
        }
        // GCC 12 would miscompile a co_await in the condition of the loop.
        bool again = true;
        while (again && !owner_.closing_)
            again = co_await serve_request();
        co_await finish();
    }

private:
    static constexpr bool is_encrypted = std::is_same_v<Stream, tls_stream>;

    plain_stream& transport() { return beast::get_lowest_layer(stream_); }

    using parser_type = http::request_parser<http::string_body>;
    using header_type = http::request_header<>;
    using clock = std::chrono::steady_clock;

    /// Whether another request may follow.
    awaitable<bool> serve_request()
    {
        parser_type parser;
        parser.eager(true);
        parser.header_limit(static_cast<std::uint32_t>(owner_.settings_.max_header));
        parser.body_limit(owner_.settings_.max_body);
        const error_code error = co_await read(parser);
        const auto& message = parser.get();
        if (error)
        {
            co_await refuse(message, error);
            co_return false;
        }
        if (const std::string rule = broken_rule(message); !rule.empty())
        {
            co_await refuse(message, 400, rule);
            co_return false;
        }
        const auto header = [&](http::field name) -> std::string_view { return message[name]; };
        const std::string_view method = message.method_string();
        std::string_view target = message.target();
        const std::string_view authority = take_authority(target);
        std::optional<std::string_view> origin;
        if (message.count(http::field::origin) != 0)
            origin = header(http::field::origin);
        const request asked{method,
                            target,
                            header(http::field::content_type),
                            header(http::field::authorization),
                            origin,
                            authority.empty() ? header(http::field::host) : authority,
                            message.body(),
                            client_};
        const auto begin = clock::now();
        response answer = co_await owner_.service_.answer(asked);
        if (answer.later)
        {
            const auto later = std::move(answer.later);
            answer = co_await await_answer(later);
        }
        const bool gone = hung_up_ || (answer.checks_client && has_hung_up());
        const bool stay = parser.keep_alive() && !owner_.closing_ && !answer.next;
        const std::string id = id_of(message);
        const bool head = method == "HEAD";
        bool written = false;
        if (!gone)
            written = co_await write(answer, id, message.version() < 11, stay, head);
        if (!written && answer.undo)
            answer.undo();
        if (written && answer.next && !head)
            co_await write_parts(answer.next);
        if (!gone)
            log_answer(id, asked.method, asked.target, answer, begin);
        co_return (written && stay);
    }

    awaitable<error_code> read(parser_type& parser)
    {
        skip_empty_lines();
        bool begun = buffer_.size() != 0;
        bool expectation_checked = false;
        idle_ = !begun;
        transport().expires_after(begun ? owner_.settings_.request_timeout
                                        : owner_.settings_.idle_timeout);
        while (true)
        {
            error_code error;
            if (buffer_.size() != 0)
            {
                const std::size_t used = parser.put(buffer_.data(), error);
                buffer_.consume(used);
                if (error && error != http::error::need_more)
                    co_return error;
                if (parser.is_done())
                    co_return error_code();
                if (used != 0 && buffer_.size() != 0)
                    continue;
            }
            if (parser.is_header_done() && !expectation_checked)
            {
                expectation_checked = true;
                if (parser.get().version() >= 11 &&
                    beast::iequals(parser.get()[http::field::expect], "100-continue"))
                {
                    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
                    auto [failed, size] =
                        co_await asio::async_write(stream_, asio::buffer(go_on), as_result);
                    if (failed)
                        co_return failed;
                }
            }
            auto [failed, size] =
                co_await stream_.async_read_some(buffer_.prepare(4096), as_result);
            buffer_.commit(size);
            if (!begun)
                skip_empty_lines();
            idle_ = !failed && !begun && buffer_.size() == 0;
            if (failed)
                co_return failed;
            if (!begun && !idle_)
            {
                // The time limit of a whole request begins with its first byte.
                begun = true;
                transport().expires_after(owner_.settings_.request_timeout);
            }
        }
    }

    /// Some clients send an empty line after a body.
    void skip_empty_lines()
    {
        const auto* const bytes = static_cast<const char*>(buffer_.data().data());
        const std::string_view text(bytes, buffer_.size());
        buffer_.consume(std::min(text.find_first_not_of("\r\n"), text.size()));
    }

    /// Answers a request that could not be read. A connection that has ended receives no answer.
    awaitable<void> refuse(const header_type& message, const error_code& error)
    {
        if (error == http::error::body_limit)
            co_await refuse(message, 413,
                            "the body must have at most " +
                                std::to_string(owner_.settings_.max_body) + " bytes");
        else if (error == http::error::header_limit)
            co_await refuse(message, 431,
                            "the head must have at most " +
                                std::to_string(owner_.settings_.max_header) + " bytes");
        else if (error.category() == make_error_code(http::error::need_more).category())
            co_await refuse(message, 400, error.message());
    }

    /// Answers a request that the service does not see. The header may be incomplete.
    awaitable<void> refuse(const header_type& message, unsigned status, std::string text)
    {
        const auto begin = clock::now();
        response answer;
        answer.status = status;
        answer.body = std::move(text);
        const std::string id = id_of(message);
        co_await write(answer, id, false, false, message.method() == http::verb::head);
        log_answer(id, message.method_string(), message.target(), answer, begin);
    }

    /// The id that the client has chosen, or else a new one.
    static std::string id_of(const header_type& message)
    {
        const std::string_view id = message["X-Request-Id"];
        return is_request_id(id) ? std::string(id) : new_request_id();
    }

    void log_answer(std::string_view id, std::string_view method, std::string_view target,
                    const response& answer, clock::time_point begin) const
    {
        if (!is_logged(log_level::debug))
            return;
        const auto time = clock::now() - begin;
        log(log_level::debug, "request",
            {{"id", id},
             {"client", client_},
             {"method", method},
             {"target", target},
             {"status", std::int64_t(answer.status)},
             {"bytes", std::int64_t(answer.body.size())},
             {"microseconds",
              std::chrono::duration_cast<std::chrono::microseconds>(time).count()}});
    }

    /// Awaits an answer, and cancels it if the client hangs up. Data that the client sends meanwhile belong to
    /// its next requests.
    awaitable<response> await_answer(const std::function<awaitable<response>()>& later)
    {
        response answer;
        bool done = false;
        asio::cancellation_signal cancel;
        transport().expires_never();
        asio::co_spawn(
            owner_.context_.get_executor(), later(),
            asio::bind_cancellation_slot(cancel.slot(),
                                         [&](const std::exception_ptr& failure, response result)
                                         {
                                             answer = std::move(result);
                                             if (failure)
                                                 answer.status = 500;
                                             done = true;
                                             transport().cancel();
                                             finished_.cancel();
                                         }));
        while (!done && !hung_up_)
        {
            auto [error, size] = co_await stream_.async_read_some(buffer_.prepare(4096), as_result);
            buffer_.commit(size);
            // A client that sends more than the largest request before it has the answer counts as hung up.
            hung_up_ = (error && !done) ||
                       buffer_.size() > owner_.settings_.max_header + owner_.settings_.max_body;
        }
        if (!done)
        {
            finished_.expires_at(std::chrono::steady_clock::time_point::max());
            cancel.emit(asio::cancellation_type::terminal);
            // NOLINTNEXTLINE(bugprone-infinite-loop): the coroutine that was spawned above changes it.
            while (!done)
                co_await finished_.async_wait(as_result);
        }
        co_return answer;
    }

    /// Whether the client has hung up. The event loop may report a grant before it reports the hang-up.
    bool has_hung_up()
    {
        pollfd state{transport().socket().native_handle(), POLLRDHUP, 0};
        return ::poll(&state, 1, 0) > 0;
    }

    /// Whether the whole text was sent in time.
    awaitable<bool> send(std::string_view text)
    {
        transport().expires_after(owner_.settings_.request_timeout);
        auto [error, size] = co_await asio::async_write(stream_, asio::buffer(text), as_result);
        co_return !error;
    }

    /// A client that does not receive a part in time is disconnected.
    awaitable<void> write_parts(const std::function<awaitable<response>()>& next)
    {
        bool going_on = true;
        while (going_on)
        {
            const response part = co_await await_answer(next);
            if (hung_up_ || part.body.empty())
                co_return;
            going_on = co_await send(part.body);
        }
    }

    /// Counts and sends an answer. Returns whether it was sent.
    awaitable<bool> write(const response& answer, const std::string& id, bool old, bool stay,
                          bool head)
    {
        owner_.service_.count(answer.status);
        const auto reason = http::obsolete_reason(http::int_to_status(answer.status));
        std::string text;
        text.reserve(256 + answer.body.size());
        text.append("HTTP/1.1 ").append(std::to_string(answer.status)).append(" ");
        text.append(reason.data(), reason.size()).append("\r\nDate: ").append(date());
        text.append("\r\nContent-Type: ").append(answer.content_type);
        // The end of the connection is the end of an answer with parts.
        if (!answer.next)
            text.append("\r\nContent-Length: ").append(std::to_string(answer.body.size()));
        text.append("\r\nX-Request-Id: ").append(id);
        text.append("\r\nCache-Control: no-store\r\n").append(answer.headers);
        if (!stay)
            text += "Connection: close\r\n";
        else if (old)
            text += "Connection: keep-alive\r\n";
        text += "\r\n";
        if (!head)
            text += answer.body;
        co_return co_await send(text);
    }

    /// Closes the connection in such a way that the client receives the last answer, even if it is still
    /// sending: unread data would reset the connection.
    awaitable<void> finish()
    {
        transport().expires_after(std::chrono::seconds(2));
        if constexpr (is_encrypted)
        {
            // The client has to know that nothing was cut off. Its own closing message may be missing.
            [[maybe_unused]] auto [ignored] = co_await stream_.async_shutdown(as_result);
        }
        error_code error;
        // NOLINTNEXTLINE(bugprone-unused-return-value): the argument receives the same error.
        transport().socket().shutdown(tcp::socket::shutdown_send, error);
        if (error || owner_.closing_)
            co_return;
        while (true)
        {
            buffer_.clear();
            auto [failed, size] =
                co_await transport().async_read_some(buffer_.prepare(65536), as_result);
            if (failed)
                co_return;
        }
    }

    server& owner_;
    std::list<std::function<void()>>::iterator close_if_idle_;
    std::string client_;
    Stream stream_;
    beast::flat_buffer buffer_;
    timer finished_{owner_.context_};
    bool idle_ = true;
    bool hung_up_ = false;
};

namespace {

template <class Stream, class... Context>
awaitable<void> serve(server& owner, std::string client,
                      tcp::socket::rebind_executor<executor>::other socket, Context&... tls)
{
    connection<Stream> served(owner, std::move(client), std::move(socket), tls...);
    co_await served.run();
}

/// Makes the system end the connection to a client that has disappeared without closing it: a waiter would keep its
/// position, and take its units with it. @p limit is the time without an answer from the client's system.
void detect_disappearance(int socket, std::chrono::milliseconds limit)
{
    const auto set = [socket](int level, int option, int value)
    { ::setsockopt(socket, level, option, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    // Probes are not sent while sent data are not acknowledged. This limit applies to both.
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
}

/// Reads the file that an option names. The error contains both names.
template <class Read>
void load(std::string_view option, const std::string& name, Read read)
{
    error_code error;
    read(name, error);
    if (error)
        throw std::runtime_error(std::string(option) + ": cannot use \"" + name +
                                 "\": " + error.message());
}

}  // namespace

server::server(asio::io_context& context, service& handler, server_settings settings)
    : context_(context)
    , service_(handler)
    , settings_(std::move(settings))
    , acceptor_(context)
{
    if (settings_.certificate.empty() != settings_.key.empty())
        throw std::runtime_error("--tls-cert and --tls-key need each other");
    if (!settings_.certificate.empty())
    {
        auto& tls = tls_.emplace(asio::ssl::context::tls_server);
        tls.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
        // Otherwise, OpenSSL would ask for the pass phrase of an encrypted key on the terminal, and wait.
        tls.set_password_callback([](auto&&...) { return std::string(); });
        // NOLINTBEGIN(bugprone-unused-return-value): the argument receives the same error.
        load("--tls-cert", settings_.certificate, [&](const std::string& name, error_code& error)
             { tls.use_certificate_chain_file(name, error); });
        load("--tls-key", settings_.key, [&](const std::string& name, error_code& error)
             { tls.use_private_key_file(name, asio::ssl::context::pem, error); });
        // NOLINTEND(bugprone-unused-return-value)
    }
    listen();
}

void server::listen()
{
    error_code error;
    const auto address = asio::ip::make_address(settings_.address, error);
    if (error)
        throw std::runtime_error("--address: \"" + settings_.address +
                                 "\" is not an IP address, such as 127.0.0.1 or ::1");
    const tcp::endpoint endpoint(address, settings_.port);
    try
    {
        acceptor_.open(endpoint.protocol());
        acceptor_.set_option(asio::socket_base::reuse_address(true));
        acceptor_.bind(endpoint);
        acceptor_.listen(4096);
    }
    catch (const boost::system::system_error& failure)
    {
        std::ostringstream place;
        place << endpoint;
        throw std::runtime_error("cannot listen on " + place.str() + ": " +
                                 failure.code().message());
    }
}

std::uint16_t server::port() const
{
    return acceptor_.local_endpoint().port();
}

void server::start()
{
    asio::co_spawn(context_.get_executor(), accept(), asio::detached);
}

void server::close()
{
    closing_ = true;
    acceptor_.close();
    for (const auto& close_if_idle : connections_)
        close_if_idle();
}

awaitable<void> server::accept()
{
    timer pause(context_);
    bool complained = false;
    while (!closing_)
    {
        tcp::endpoint peer;
        auto [error, socket] = co_await acceptor_.async_accept(peer, as_result);
        if (closing_)
            co_return;
        if (error)
        {
            // Typically no file descriptors are left. To accept again at once would be a busy loop.
            if (!complained)
                log(log_level::warning, "cannot accept connections", {{"error", error.message()}});
            complained = true;
            pause.expires_after(std::chrono::milliseconds(100));
            co_await pause.async_wait(as_result);
            continue;
        }
        if (complained)
            log(log_level::warning, "accepting connections again");
        complained = false;
        if (connections_.size() >= settings_.max_connections)
        {
            // Without a handshake, a client of TLS cannot read an answer.
            if (tls_)
                continue;
            const std::string busy = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                                     "Content-Length: 0\r\nX-Request-Id: " +
                                     new_request_id() + "\r\n\r\n";
            ::send(socket.native_handle(), busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            service_.count(503);
            continue;
        }
        error_code ignored;
        // NOLINTNEXTLINE(bugprone-unused-return-value): without the option, the server works as well.
        socket.set_option(tcp::no_delay(true), ignored);
        // A client that answers, but does not read, has the time that the option grants.
        detect_disappearance(socket.native_handle(),
                             std::max(settings_.request_timeout, std::chrono::seconds(60)));
        std::string client = peer.address().to_string();
        if (tls_)
            asio::co_spawn(context_.get_executor(),
                           serve<tls_stream>(*this, std::move(client), std::move(socket), *tls_),
                           asio::detached);
        else
            asio::co_spawn(context_.get_executor(),
                           serve<plain_stream>(*this, std::move(client), std::move(socket)),
                           asio::detached);
    }
}

}  // namespace turnstile::service
