// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/answers.hpp"
#include "service/page.hpp"
#include "service/service.hpp"

#include <string>
#include <string_view>
#include <utility>

// The routes for operators and for the page.

namespace turnstile::service {

namespace {

/// Adds a number in the format of Prometheus.
void add_metric(std::string& body, const metric& added)
{
    body.append("# HELP turnstile_").append(added.name).append(" ").append(added.help);
    body.append("\n# TYPE turnstile_").append(added.name).append(" ").append(added.type);
    body.append("\nturnstile_").append(added.name).append(" ");
    body.append(std::to_string(added.number)).append("\n");
}

}  // namespace

awaitable<response> service::follow(const request&, const std::string&)
{
    if (closing_)
        co_return plain(503, "server is shutting down");
    if (events_.readers() == events::most_readers)
        co_return plain(503, "too many readers of events");
    response answer;
    answer.content_type = "text/event-stream";
    answer.next = events_.open();
    co_return answer;
}

awaitable<response> service::metrics(const request&, const std::string&)
{
    const store_metrics numbers = co_await store_->metrics();
    std::string body;
    if (numbers.semaphores)
        add_metric(body, {"semaphores", "gauge", "Semaphores that exist.", *numbers.semaphores});
    add_metric(body, {"waiters", "gauge", "Clients that wait for units.", numbers.waiters});
    if (numbers.permits)
        add_metric(body, {"permits", "gauge", "Leased permits.", *numbers.permits});
    add_metric(body,
               {"event_readers", "gauge", "Clients that read the events.", events_.readers()});
    add_metric(body,
               {"grants_total", "counter", "Successful downs and call-backs.", numbers.grants});
    add_metric(body, {"withdrawn_total", "counter",
                      "Waits that ended by a hang-up, a deletion, an error or the server's end.",
                      numbers.withdrawn});
    add_metric(body, {"undone_total", "counter",
                      "Grants that were returned because their clients had not received them.",
                      numbers.undone});
    if (numbers.expired)
        add_metric(body,
                   {"expired_total", "counter", "Permits whose lease expired.", *numbers.expired});
    for (const metric& each : numbers.others)
        add_metric(body, each);
    body += "# HELP turnstile_answers_total Answers by status.\n# TYPE turnstile_answers_total "
            "counter\n";
    for (const auto& [status, count] : answers_)
        body += "turnstile_answers_total{status=\"" + std::to_string(status) + "\"} " +
                std::to_string(count) + '\n';
    response answer = plain(200, std::move(body));
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    co_return answer;
}

awaitable<response> service::file(const request& message, const std::string&)
{
    const std::string_view path = message.target.substr(0, message.target.find('?'));
    response answer;
    answer.headers =
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: "
        "no-referrer\r\n";
    for (const page_file& candidate : page_files())
    {
        if (candidate.path != path)
            continue;
        answer.content_type = candidate.content_type;
        answer.body = candidate.text;
    }
    co_return answer;
}

awaitable<response> service::healthy(const request&, const std::string&)
{
    co_return plain(200, "ok");
}

awaitable<response> service::ready(const request&, const std::string&)
{
    if (closing_)
        co_return plain(503, "server is shutting down");
    const result checked = co_await store_->check();
    if (checked.what != outcome::done)
        co_return to_response(checked, {});
    co_return plain(200, "ok");
}

}  // namespace turnstile::service
