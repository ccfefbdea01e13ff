// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_SERVICE_HPP
#define TURNSTILE_SERVICE_SERVICE_HPP

#include "service/events.hpp"
#include "service/message.hpp"
#include "service/notify.hpp"
#include "service/snapshot.hpp"
#include "service/store.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::service {

class fields;

/// What a client may do. Each role includes the ones before it.
enum class role
{
    nobody,
    read,
    use,
    admin,
};

/// The settings of the service itself; those of connections are in @ref server_settings.
struct service_settings
{
    /// The bearer token of each role from role::read on; a role without a token cannot be had. If all are
    /// empty, every client is an administrator.
    std::array<std::string, 3> tokens;
    /// The longest time that a `down` may wait.
    std::chrono::seconds max_wait{3600};
    /// The longest lease of a permit.
    std::chrono::seconds max_lease{86'400};
    /// The largest number of waiting clients.
    std::size_t max_waiters = 100'000;
    /// The largest number of waiting clients with the same address.
    std::size_t max_waiters_per_client = 100'000;
    /// The file that keeps the semaphores while the server does not run; none if it is empty.
    std::string snapshot;
    notify_settings notify;
};

/**
 * @brief Answers requests: the routes, the format of bodies and answers, and the permissions.
 *
 * It knows neither sockets nor the syntax of HTTP.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class service
{
public:
    service(boost::asio::io_context& context, service_settings settings);

    /// Answers a request at once, or with response::later.
    response answer(const request& message);

    /// Answers the waiters. Afterwards `/readyz` fails.
    void close();

    /// Writes the snapshot, if there is one, after the last answer.
    void save();

private:
    struct route;
    static const std::array<route, 19> routes;

    response create(const request& message, const std::string& name);
    response remove(const request& message, const std::string& name);
    response value(const request& message, const std::string& name);
    response up(const request& message, const std::string& name);
    response down(const request& message, const std::string& name);
    response notify(const request& message, const std::string& name);
    response renew(const request& message, const std::string& name);
    response free(const request& message, const std::string& name);
    response detail(const request& message, const std::string& name);
    response list(const request& message, const std::string& name);
    response follow(const request& message, const std::string& name);
    response metrics(const request& message, const std::string& name);
    response file(const request& message, const std::string& name);
    response healthy(const request& message, const std::string& name);
    response ready(const request& message, const std::string& name);

    [[nodiscard]] demand demand_in(const request& message, const fields& body, double wait) const;
    awaitable<response> down_later(std::string name, demand wanted);
    awaitable<void> call_back(std::string id, notify_target target, std::string name,
                              demand wanted);
    response dispatch(const request& message);
    [[nodiscard]] role role_of(const request& message) const;

    boost::asio::io_context& context_;
    service_settings settings_;
    store store_;
    events events_;
    notifier notifier_;
    std::size_t call_backs_ = 0;
    std::optional<snapshot> snapshot_;
    bool closing_ = false;
    std::map<unsigned, std::uint64_t> answers_;
    std::map<std::string, std::size_t> waiters_of_;
};

}  // namespace turnstile::service

#endif
