// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/answers.hpp"

#include "service/decode.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace turnstile::service {

namespace {

/// The size of a list that ends its page. Otherwise, 1,000 names of 4096 bytes that are escaped would have 24 MB.
constexpr std::size_t largest_page = std::size_t(256) * 1024;

}  // namespace

response plain(unsigned status, std::string text)
{
    response answer;
    answer.status = status;
    answer.body = std::move(text);
    return answer;
}

response json(std::string body)
{
    response answer;
    answer.content_type = response::json;
    answer.body = std::move(body);
    return answer;
}

void refuse(unsigned status, std::string text)
{
    throw refusal{plain(status, std::move(text))};
}

std::string name_and_value(std::string_view name, std::int64_t value)
{
    return "{\"name\":" + quoted(name) + ",\"value\":" + std::to_string(value);
}

std::string to_text(const redis::listed_semaphore& semaphore)
{
    return name_and_value(semaphore.name, semaphore.value) +
           ",\"waiters\":" + std::to_string(semaphore.waiters) +
           ",\"permits\":" + std::to_string(semaphore.permits);
}

response to_response(const result& ended, std::string_view name)
{
    switch (ended.what)
    {
    case outcome::done:
        return json(name_and_value(name, ended.value) + '}');
    case outcome::missing:
        return plain(404, "semaphore not found");
    case outcome::exists:
        return plain(303, "semaphore exists");
    case outcome::busy:
        return plain(409, "Semaphore locked");
    case outcome::unheld:
        return plain(409,
                     "permit is not held: it has expired, or was never granted for this semaphore");
    case outcome::overflow:
        return plain(409, "value would exceed " + std::to_string(ended.value));
    case outcome::crowded:
        return plain(503, "too many clients are waiting");
    case outcome::closing:
        return plain(503, "server is shutting down");
    case outcome::unavailable:
        return plain(503, ended.reason);
    }
    return plain(500, "unknown outcome");
}

response to_response(grant granted, std::string_view name)
{
    response answer = to_response(static_cast<const result&>(granted), name);
    if (!granted.permit.empty())
    {
        answer.body.pop_back();
        answer.body += ",\"permit\":\"" + granted.permit +
                       "\",\"token\":" + std::to_string(granted.token) + '}';
    }
    answer.undo = std::move(granted.undo);
    return answer;
}

std::string to_json(const listed_page& page)
{
    std::string text = "{\"semaphores\":[";
    std::optional<std::string> next = page.next;
    for (const redis::listed_semaphore& semaphore : page.semaphores)
    {
        text += text.back() == '[' ? "" : ",";
        text += to_text(semaphore) + '}';
        if (text.size() < largest_page)
            continue;
        if (&semaphore != &page.semaphores.back())
            next = semaphore.name;
        break;
    }
    return text + "],\"next\":" + (next ? quoted(*next) : "null") + '}';
}

std::string to_json(const detailed& semaphore)
{
    const auto add = [](std::string& list, std::string_view client, std::int64_t units,
                        std::chrono::milliseconds age, const std::string& more)
    {
        list += (list.empty() ? "{\"client\":" : ",{\"client\":") + quoted(client) +
                ",\"n\":" + std::to_string(units) + ",\"age_ms\":" + std::to_string(age.count()) +
                more + '}';
    };
    std::string waiters;
    for (const redis::listed_waiter& each : semaphore.waiters)
        add(waiters, each.session, each.units, each.waiting_for, {});
    std::string permits;
    for (const redis::listed_permit& each : semaphore.permits)
        add(permits, each.client, each.units, each.held_for,
            ",\"rest_ms\":" + std::to_string(each.lease_left.count()) +
                ",\"lease_ms\":" + std::to_string(each.lease.count()) +
                ",\"token\":" + std::to_string(each.fencing_token));
    return to_text(semaphore.state) + ",\"waiting\":[" + waiters + "],\"holding\":[" + permits +
           "]}";
}

}  // namespace turnstile::service
