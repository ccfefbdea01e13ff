// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_HTTP_CLIENT_HPP
#define TURNSTILE_TEST_SERVICE_HTTP_CLIENT_HPP

// A blocking HTTP client that sends exactly the given bytes. So a test can send what no library would send.

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <functional>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace turnstile::test {

/// The address of a server.
struct site
{
    std::string host;
    std::string port;
};

struct http_answer
{
    int status = 0;
    std::string head;
    std::string body;

    /// The value of a header field; nothing if it is missing.
    [[nodiscard]] std::optional<std::string> field(const std::string& name) const
    {
        const std::size_t start = head.find("\r\n" + name + ": ");
        if (start == std::string::npos)
            return std::nullopt;
        const std::size_t value = start + name.size() + 4;
        return head.substr(value, head.find("\r\n", value) - value);
    }
};

/// One connection.
class http_client
{
public:
    /// If set, it is called with the method, the target and the status of each answer whose request line was sent as a
    /// whole. No client may exist when it is set.
    static inline std::function<void(const std::string&, const std::string&, int)> observer;

    /// @p from is the address of the client; the system chooses one if it is empty.
    explicit http_client(const site& server, const std::string& from = {})
    {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        if (::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found) != 0)
            throw std::runtime_error("unknown host " + server.host);
        socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!from.empty())
        {
            sockaddr_in own{};
            own.sin_family = AF_INET;
            ::inet_pton(AF_INET, from.c_str(), &own.sin_addr);
            if (::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
                throw std::runtime_error("cannot use the address " + from);
        }
        const int connected = ::connect(socket_, found->ai_addr, found->ai_addrlen);
        ::freeaddrinfo(found);
        if (connected != 0)
            throw std::runtime_error("cannot connect to port " + server.port);
        const int on = 1;
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        // Reached only if the server is broken.
        const timeval time_limit{120, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time_limit, sizeof time_limit);
    }

    http_client(http_client&& other) noexcept
        : socket_(std::exchange(other.socket_, -1))
        , received_(std::move(other.received_))
        , requests_(std::move(other.requests_))
    {
    }

    http_client& operator=(http_client&&) = delete;

    ~http_client()
    {
        if (socket_ >= 0)
            ::close(socket_);
    }

    /// False if the server has closed the connection. Its last answer may explain why.
    bool send(std::string_view bytes)
    {
        remember_requests(bytes);
        while (!bytes.empty())
        {
            const ssize_t size = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (size <= 0)
                return false;
            bytes.remove_prefix(static_cast<std::size_t>(size));
        }
        return true;
    }

    /// Ends the sending side of the connection.
    void end_sending() { ::shutdown(socket_, SHUT_WR); }

    /// Reads one answer. @p head states that it answers a HEAD, and so has no body. The status is 0 if the
    /// connection ended.
    http_answer receive(bool head = false)
    {
        http_answer answer;
        std::size_t end = 0;
        while ((end = received_.find("\r\n\r\n")) == std::string::npos)
        {
            if (!receive_more())
                return answer;
        }
        answer.head = received_.substr(0, end + 2);
        received_.erase(0, end + 4);
        answer.status = std::atoi(answer.head.substr(9, 3).c_str());
        if (answer.status >= 200 && !requests_.empty())
        {
            observer(requests_.front().first, requests_.front().second, answer.status);
            requests_.pop_front();
        }
        const std::size_t length =
            head ? 0
                 : std::strtoul(answer.field("Content-Length").value_or("0").c_str(), nullptr, 10);
        while (received_.size() < length)
        {
            if (!receive_more())
                return {};
        }
        answer.body = received_.substr(0, length);
        received_.erase(0, length);
        return answer;
    }

    /// Reads text up to and including @p end. Empty if the connection ended before.
    std::string receive_until(std::string_view end)
    {
        std::size_t found = 0;
        std::size_t searched = 0;
        while ((found = received_.find(end, searched)) == std::string::npos)
        {
            searched = received_.size() - std::min(received_.size(), end.size());
            if (!receive_more())
                return {};
        }
        std::string text = received_.substr(0, found + end.size());
        received_.erase(0, text.size());
        return text;
    }

    /// Whether the server closes the connection without a further byte.
    bool ends() { return received_.empty() && !receive_more(); }

    /// Whether the server has closed the connection already, without an answer.
    [[nodiscard]] bool has_ended() const
    {
        char byte = 0;
        const ssize_t size = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return size == 0 || (size < 0 && errno == ECONNRESET);
    }

    /// Closes the connection with a reset, which leaves no port in the state TIME_WAIT.
    void reset()
    {
        const linger at_once{1, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::close(std::exchange(socket_, -1));
    }

private:
    void remember_requests(std::string_view bytes)
    {
        if (!observer)
            return;
        for (std::size_t end = bytes.find(" HTTP/1."); end != std::string_view::npos;
             end = bytes.find(" HTTP/1.", end + 1))
        {
            const std::size_t space = bytes.rfind(' ', end - 1);
            if (end == 0 || space == std::string_view::npos)
                continue;
            std::size_t begin = space;
            while (begin != 0 && bytes[begin - 1] >= 'A' && bytes[begin - 1] <= 'Z')
                --begin;
            requests_.emplace_back(bytes.substr(begin, space - begin),
                                   bytes.substr(space + 1, end - space - 1));
        }
    }

    bool receive_more()
    {
        char buffer[4096];
        ssize_t size = 0;
        // A socket with a time limit is interrupted if this process is stopped and continued.
        do
            size = ::recv(socket_, buffer, sizeof buffer, 0);
        while (size < 0 && errno == EINTR);
        if (size <= 0)
            return false;
        received_.append(buffer, static_cast<std::size_t>(size));
        return true;
    }

    int socket_ = -1;
    std::string received_;
    /// The methods and targets of the requests without an answer.
    std::deque<std::pair<std::string, std::string>> requests_;
};

/// The text of a request.
inline std::string request_text(const std::string& method, const std::string& target,
                                const std::string& body = {},
                                const std::string& content_type = "application/json",
                                const std::string& more_headers = {})
{
    std::string text = method + ' ' + target + " HTTP/1.1\r\nHost: test\r\n" + more_headers;
    if (!body.empty())
        text += "Content-Type: " + content_type + "\r\n";
    if (!body.empty() || method == "POST")
        text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + body;
}

/// Sends one request over a new connection.
template <class... Arguments>
http_answer ask(const site& server, const std::string& method, const Arguments&... arguments)
{
    http_client client(server);
    client.send(request_text(method, arguments...));
    return client.receive(method == "HEAD");
}

/// A number of the metrics of a server.
inline long long metric(const site& server, const std::string& name)
{
    const std::string text = ask(server, "GET", "/metrics").body;
    const std::string start = "\nturnstile_" + name + ' ';
    const std::size_t found = text.find(start);
    if (found == std::string::npos)
        throw std::logic_error("no metric " + name + " in " + text);
    return std::atoll(text.c_str() + found + start.size());
}

}  // namespace turnstile::test

#endif
