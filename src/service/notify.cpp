// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/notify.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdexcept>
#include <system_error>
#include <turnstile/error.hpp>
#include <utility>

namespace turnstile::service {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr std::chrono::seconds longest_attempt{10};

bool is_port(std::string_view text)
{
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && number != 0;
}

}  // namespace

std::optional<notify_target> parse_url(std::string_view url)
{
    notify_target target;
    const auto begins_with = [&](std::string_view scheme)
    { return boost::beast::iequals(url.substr(0, scheme.size()), scheme); };
    target.tls = begins_with("https://");
    const std::string_view scheme = target.tls ? "https://" : "http://";
    // Other characters could end the request line and begin a header.
    if (!begins_with(scheme) ||
        std::ranges::any_of(url, [](char c) { return c <= ' ' || c > '~'; }))
        return std::nullopt;
    url.remove_prefix(scheme.size());
    const std::size_t slash = std::min(url.find_first_of("/?#"), url.size());
    const std::string_view place = url.substr(0, slash);
    const std::string_view path = url.substr(slash);
    if (path.find('#') != std::string_view::npos || place.find('@') != std::string_view::npos)
        return std::nullopt;
    // The colons of an IPv6 address are within brackets.
    const std::size_t colon = place.find(':', place.starts_with('[') ? place.find(']') : 0);
    target.host = place.substr(0, colon);
    if (colon != std::string_view::npos)
        target.port = place.substr(colon + 1);
    else
        target.port = target.tls ? "443" : "80";
    target.path = path;
    if (path.empty() || path.front() != '/')
        target.path.insert(0, "/");
    std::ranges::transform(target.host, target.host.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_in_brackets = target.host.starts_with('[') && target.host.ends_with(']');
    if (target.host.empty() ||
        (!is_in_brackets && target.host.find_first_of("[]:") != std::string::npos) ||
        !is_port(target.port))
        return std::nullopt;
    return target;
}

std::string sign(std::string_view secret, std::string_view text)
{
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
    return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + size, ""));
}

/// The operations that a call-back may wait for, so that close() can cancel them.
struct notifier::delivery
{
    explicit delivery(notifier& notifier)
        : owner(notifier)
        , pause(notifier.context_)
        , stream(notifier.context_)
    {
        owner.deliveries_.insert(this);
    }

    delivery(const delivery&) = delete;
    delivery& operator=(const delivery&) = delete;

    ~delivery() { owner.deliveries_.erase(this); }

    notifier& owner;
    timer pause;
    beast::basic_stream<tcp, executor> stream;
};

/// A search for the addresses of a host name.
struct notifier::lookup
{
    explicit lookup(asio::io_context& context)
        : done(context, timer::time_point::max())
    {
    }

    std::vector<asio::ip::address> found;
    /// Cancelled when the search ends.
    timer done;
};

notifier::notifier(asio::io_context& context, notify_settings settings)
    : context_(context)
    , settings_(std::move(settings))
{
    tls_.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
    tls_.set_verify_mode(asio::ssl::verify_peer);
    try
    {
        if (settings_.authorities.empty())
            tls_.set_default_verify_paths();
        else
            tls_.load_verify_file(settings_.authorities);
    }
    catch (const std::exception& error)
    {
        throw std::runtime_error("--notify-ca: cannot use \"" + settings_.authorities +
                                 "\": " + error.what());
    }
}

bool notifier::allows(const notify_target& target) const
{
    return std::ranges::any_of(
        settings_.hosts,
        [&](const std::string& allowed)
        {
            const auto parsed = parse_url((target.tls ? "https://" : "http://") + allowed);
            return parsed && parsed->host == target.host && parsed->port == target.port;
        });
}

awaitable<bool> notifier::deliver(const notify_target& target, std::string body,
                                  clock::time_point end)
{
    std::string text = "POST " + target.path + " HTTP/1.1\r\nHost: " + target.host + ':' +
                       target.port + "\r\nUser-Agent: turnstile-server\r\n";
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
    text += "\r\nX-Turnstile-Signature: sha256=" + sign(settings_.secret, body);
    text += "\r\nConnection: close\r\n\r\n" + body;

    delivery state(*this);
    std::chrono::milliseconds delay{500};
    for (int i = 1; !closing_ && clock::now() < end; ++i)
    {
        const bool delivered = co_await attempt(state, target, text, end);
        if (delivered)
            co_return true;
        if (i == settings_.attempts || closing_)
            break;
        state.pause.expires_after(std::min<clock::duration>(delay, end - clock::now()));
        co_await state.pause.async_wait(as_result);
        delay *= 2;
    }
    co_return false;
}

namespace {

/// Interim answers (1xx) that a receiver may send before its answer.
constexpr int most_interim_answers = 16;

/// The longest head of an answer, in bytes.
constexpr std::uint32_t longest_head = 64 * 1024;

/// Sends a request. Returns whether the answer has a status 2xx.
template <class Stream>
awaitable<bool> post(Stream& stream, const std::string& text)
{
    auto [unsent, sent] = co_await asio::async_write(stream, asio::buffer(text), as_result);
    if (unsent)
        co_return false;
    beast::flat_buffer buffer;
    for (int i = 0; i <= most_interim_answers; ++i)
    {
        http::response_parser<http::empty_body> parser;
        parser.header_limit(longest_head);
        // The body is not read. Otherwise, the parser would refuse one of more than 8 MiB.
        parser.skip(true);
        auto [unread, size] = co_await http::async_read_header(stream, buffer, parser, as_result);
        const unsigned kind = parser.get().result_int() / 100;
        if (unread || kind != 1)
            co_return (!unread && kind == 2);
    }
    co_return false;
}

}  // namespace

/// The addresses of a host; none if the system finds none. All calls of a name share one lookup. So a slow name
/// occupies one thread of the resolver, and leaves the others to other names.
awaitable<std::vector<asio::ip::address>> notifier::addresses_of(std::string host)
{
    error_code not_literal;
    const auto literal = asio::ip::make_address(host, not_literal);
    if (!not_literal)
        co_return std::vector{literal};
    std::shared_ptr<lookup> search = lookups_[host];
    if (search)
    {
        co_await search->done.async_wait(as_result);
        co_return search->found;
    }
    search = lookups_[host] = std::make_shared<lookup>(context_);
    asio::ip::basic_resolver<tcp, executor> resolver(context_);
    auto [unknown, places] = co_await resolver.async_resolve(host, "", as_result);
    for (const auto& place : places)
        search->found.push_back(place.endpoint().address());
    lookups_.erase(host);
    search->done.cancel();
    co_return search->found;
}

awaitable<bool> notifier::attempt(delivery& state, const notify_target& target,
                                  const std::string& text, clock::time_point end)
{
    // An IPv6 address is written in brackets.
    const std::string host = target.host.front() == '[' && target.host.back() == ']'
                                 ? target.host.substr(1, target.host.size() - 2)
                                 : target.host;
    const auto addresses = co_await addresses_of(host);
    if (closing_ || clock::now() >= end)
        co_return false;
    const auto port = static_cast<std::uint16_t>(std::stoi(target.port));
    const auto until = std::min(clock::now() + longest_attempt, end);
    bool connected = false;
    auto left = static_cast<std::int64_t>(addresses.size());
    for (auto address = addresses.begin(); left > 0 && !connected && !closing_; ++address)
    {
        state.stream.socket() = decltype(state.stream)::socket_type(context_);
        // Without a share for each address, an unresponsive one would keep the others from being called.
        state.stream.expires_after((until - clock::now()) / left--);
        auto [refused] =
            co_await state.stream.async_connect(tcp::endpoint(*address, port), as_result);
        connected = !refused;
    }
    if (!connected || closing_)
        co_return false;
    state.stream.expires_after(until - clock::now());
    bool accepted = false;
    if (target.tls)
    {
        asio::ssl::stream<decltype(state.stream)&> secured(state.stream, tls_);
        secured.set_verify_callback(asio::ssl::host_name_verification(host));
        // A server with several certificates selects one by this name. Addresses are no names.
        error_code no_address;
        asio::ip::make_address(host, no_address);
        if (no_address && ::SSL_set_tlsext_host_name(secured.native_handle(), host.c_str()) != 1)
            co_return false;
        auto [refused_tls] =
            co_await secured.async_handshake(asio::ssl::stream_base::client, as_result);
        if (!refused_tls)
            accepted = co_await post(secured, text);
    }
    else
        accepted = co_await post(state.stream, text);
    state.stream.close();
    co_return accepted;
}

void notifier::close()
{
    closing_ = true;
    for (delivery* const state : deliveries_)
    {
        state->pause.cancel();
        state->stream.cancel();
    }
}

}  // namespace turnstile::service
