// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/service.hpp"

#include "service/decode.hpp"
#include "service/page.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

namespace turnstile::service {

namespace {

/// Longer names would not fit into the request line of a `DELETE`.
constexpr std::size_t longest_name = 4096;

/// The largest number of waiters, and of permits, in the details of a semaphore.
constexpr std::size_t longest_detail = 100;

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

/// Ends the handling of a request that is not valid.
struct refusal
{
    response answer;
};

[[noreturn]] void refuse(unsigned status, std::string text)
{
    throw refusal{plain(status, std::move(text))};
}

response not_found()
{
    return plain(404, "semaphore not found");
}

std::string name_and_value(std::string_view name, std::int64_t value)
{
    return "{\"name\":" + quoted(name) + ",\"value\":" + std::to_string(value);
}

std::string listed_state(const listed& semaphore)
{
    return name_and_value(semaphore.name, semaphore.value) +
           ",\"waiters\":" + std::to_string(semaphore.waiters) +
           ",\"permits\":" + std::to_string(semaphore.permits);
}

/// The answer to a request that did not wait.
response to_response(const result& ended, std::string_view name)
{
    switch (ended.what)
    {
    case outcome::done:
        return json(name_and_value(name, ended.value) + '}');
    case outcome::unknown:
        return not_found();
    case outcome::locked:
        return plain(409, "Semaphore locked");
    case outcome::foreign:
        return plain(409,
                     "permit is not held: it has expired, or was never granted for this semaphore");
    case outcome::overflow:
        return plain(409, "value would exceed " + std::to_string(largest_value));
    case outcome::crowded:
        return plain(503, "too many clients are waiting");
    case outcome::closing:
        return plain(503, "server is shutting down");
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

/// The type without parameters such as the character set.
std::string media_type(std::string_view content_type)
{
    std::string type(content_type.substr(0, content_type.find(';')));
    while (!type.empty() && type.back() == ' ')
        type.pop_back();
    for (char& c : type)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return type;
}

fields decode_body(const request& message)
{
    if (message.body.empty())
        refuse(400, "body is empty: a JSON object or a form is needed");
    const std::string type = media_type(message.content_type);
    std::optional<fields> decoded;
    if (type == "application/json")
        decoded = decode_json(message.body);
    else if (type == "application/x-www-form-urlencoded")
        decoded = decode_form(message.body);
    else
        refuse(415, "content type must be application/json or application/x-www-form-urlencoded");
    if (!decoded)
        refuse(400, "body is not a JSON object or form, as the content type says");
    return std::move(*decoded);
}

const std::string& name_in(const fields& body)
{
    const field* found = body.find("name");
    const auto* name = found == nullptr ? nullptr : std::get_if<std::string>(found);
    if (name == nullptr || name->empty() || name->size() > longest_name)
        refuse(400, "name must be a text of 1 to " + std::to_string(longest_name) + " bytes");
    return *name;
}

/// A number that a client need not send.
std::optional<double> number_in(const fields& body, std::string_view name, double least,
                                double most)
{
    const field* found = body.find(name);
    if (found == nullptr)
        return std::nullopt;
    const auto number = to_number(*found);
    if (!number || !(*number >= least && *number <= most))
        refuse(400, std::string(name) + " must be a number from " + std::to_string(least) + " to " +
                        std::to_string(most));
    return number;
}

std::int64_t units_in(const fields& body)
{
    const double units = number_in(body, "n", 1, static_cast<double>(store::max_units)).value_or(1);
    if (units != std::trunc(units))
        refuse(400, "n must be a whole number");
    return static_cast<std::int64_t>(units);
}

std::optional<std::string> permit_in(const fields& body)
{
    const field* found = body.find("permit");
    if (found == nullptr)
        return std::nullopt;
    const auto* id = std::get_if<std::string>(found);
    if (id == nullptr)
        refuse(400, "permit must be the text that down returned");
    return *id;
}

std::chrono::milliseconds to_milliseconds(double seconds)
{
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

/// Compares in a time that does not depend on the position of the first difference.
bool same_secret(std::string_view a, std::string_view b) noexcept
{
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

/// Whether a request that a web page sends comes from a page of this server, and not from any page that the user of
/// the browser has opened.
bool is_own_page(const request& message)
{
    if (message.origin.empty())
        return true;
    const std::size_t host = message.origin.find("://");
    return host != std::string_view::npos && message.origin.substr(host + 3) == message.host;
}

/// Whether a path fits a route. A last segment `:name` stands for any text without a slash, which becomes
/// @p parameter.
bool matches(std::string_view pattern, std::string_view path, std::string_view& parameter)
{
    const std::size_t colon = pattern.find(':');
    if (colon == std::string_view::npos)
        return path == pattern;
    if (path.size() <= colon || path.substr(0, colon) != pattern.substr(0, colon))
        return false;
    parameter = path.substr(colon);
    return parameter.find('/') == std::string_view::npos;
}

}  // namespace

struct service::route
{
    std::string_view method;
    std::string_view pattern;
    role needed;
    response (service::*handler)(const request&, const std::string& name);
};

const std::array<service::route, 19> service::routes{{
    {"POST", "/semaphore/down", role::use, &service::down},
    {"POST", "/semaphore/up", role::use, &service::up},
    {"GET", "/semaphore/value/:name", role::read, &service::value},
    {"POST", "/semaphore/notify", role::use, &service::notify},
    {"POST", "/semaphore/renew", role::use, &service::renew},
    {"POST", "/semaphore/free", role::admin, &service::free},
    {"GET", "/semaphore/detail/:name", role::read, &service::detail},
    {"POST", "/semaphore", role::admin, &service::create},
    {"GET", "/semaphore", role::read, &service::list},
    {"DELETE", "/semaphore/:name", role::admin, &service::remove},
    {"GET", "/events", role::read, &service::follow},
    {"GET", "/metrics", role::read, &service::metrics},
    {"GET", "/", role::nobody, &service::file},
    {"GET", "/page.css", role::nobody, &service::file},
    {"GET", "/page.js", role::nobody, &service::file},
    {"GET", "/icon.svg", role::nobody, &service::file},
    {"GET", "/openapi.json", role::nobody, &service::file},
    {"GET", "/healthz", role::nobody, &service::healthy},
    {"GET", "/readyz", role::nobody, &service::ready},
}};

service::service(boost::asio::io_context& context, service_settings settings)
    : context_(context)
    , settings_(std::move(settings))
    , store_(context, settings_.max_waiters)
    , events_(context, store_)
    , notifier_(context, settings_.notify)
{
    if (!settings_.snapshot.empty())
        snapshot_.emplace(settings_.snapshot, store_);
}

response service::answer(const request& message)
{
    response answer;
    try
    {
        answer = dispatch(message);
    }
    catch (refusal& refused)
    {
        answer = std::move(refused.answer);
    }
    if (!answer.later)
    {
        ++answers_[answer.status];
        return answer;
    }
    answer.later = [this, later = std::move(answer.later)]() -> awaitable<response>
    {
        response late = co_await later();
        ++answers_[late.status];
        co_return late;
    };
    return answer;
}

void service::close()
{
    closing_ = true;
    store_.close();
    events_.close();
    notifier_.close();
}

void service::save()
{
    if (snapshot_)
        snapshot_->save();
}

response service::dispatch(const request& message)
{
    const std::string_view path = message.target.substr(0, message.target.find('?'));
    // A HEAD is a GET whose body the connection leaves out.
    const std::string_view method = message.method == "HEAD" ? "GET" : message.method;
    std::string allowed;
    for (const route& candidate : routes)
    {
        std::string_view parameter;
        if (!matches(candidate.pattern, path, parameter))
            continue;
        if (candidate.method != method)
        {
            allowed += (allowed.empty() ? "" : ", ") + std::string(candidate.method);
            allowed += candidate.method == "GET" ? ", HEAD" : "";
            continue;
        }
        if (method != "GET" && !is_own_page(message))
            refuse(403, "a page of another origin must not change anything");
        const role client = role_of(message);
        if (client < candidate.needed)
        {
            response refused =
                plain(client == role::nobody ? 401 : 403, "the token does not permit this");
            refused.headers = "WWW-Authenticate: Bearer\r\n";
            return refused;
        }
        const auto name = decode_percent(parameter);
        if (!name)
            refuse(400, "path is not percent-encoded UTF-8");
        return (this->*candidate.handler)(message, *name);
    }
    if (allowed.empty())
        return plain(404, "no such route");
    response refused = plain(405, "method not allowed");
    refused.headers = "Allow: " + allowed + "\r\n";
    return refused;
}

role service::role_of(const request& message) const
{
    if (std::ranges::all_of(settings_.tokens, &std::string::empty))
        return role::admin;
    constexpr std::string_view scheme = "Bearer ";
    if (!message.authorization.starts_with(scheme))
        return role::nobody;
    const std::string_view secret = message.authorization.substr(scheme.size());
    role found = role::nobody;
    for (const role candidate : {role::read, role::use, role::admin})
    {
        const std::string& token = settings_.tokens[static_cast<std::size_t>(candidate) - 1];
        if (!token.empty() && same_secret(secret, token))
            found = candidate;
    }
    return found;
}

response service::create(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    if (store_.exists(name))
        return plain(303, "semaphore exists");
    const field* sent = body.find("value");
    const auto number = sent == nullptr ? std::nullopt : to_number(*sent);
    if (!number)
        refuse(400, "value must be a number");
    if (*number < 1)
        refuse(400, "Value needs to be positive");
    if (*number > static_cast<double>(largest_value))
        refuse(400, "value must be at most " + std::to_string(largest_value));
    const auto value = static_cast<std::int64_t>(*number);
    store_.create(name, value);
    return json(name_and_value(name, value) + '}');
}

response service::remove(const request&, const std::string& name)
{
    return store_.remove(name) ? plain(200, "Deletion Successful")
                               : plain(404, "Semaphore not found");
}

response service::value(const request&, const std::string& name)
{
    return to_response(store_.value(name), name);
}

response service::up(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    const std::int64_t units = units_in(body);
    const auto permit = permit_in(body);
    if (permit && body.find("n") != nullptr)
        refuse(400, "n and permit exclude each other: a permit is released as a whole");
    return to_response(permit ? store_.up(name, *permit) : store_.up(name, units), name);
}

response service::down(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    const demand wanted = demand_in(message, body, 0);

    grant granted = store_.try_down(name, wanted);
    if (granted.what != outcome::locked || wanted.wait == wanted.wait.zero())
        return to_response(std::move(granted), name);
    response answer;
    answer.later = [this, name, wanted] { return down_later(name, wanted); };
    return answer;
}

/// The client of a request, and the units, the waiting time and the lease in its body. @p wait is the waiting time in seconds if there is none.
demand service::demand_in(const request& message, const fields& body, double wait) const
{
    const auto most_wait = static_cast<double>(settings_.max_wait.count());
    const auto most_lease = static_cast<double>(settings_.max_lease.count());
    demand wanted;
    wanted.client = message.client;
    wanted.units = static_cast<std::ptrdiff_t>(units_in(body));
    wanted.wait = to_milliseconds(number_in(body, "wait", 0, most_wait).value_or(wait));
    wanted.lease = to_milliseconds(number_in(body, "lease", 0.1, most_lease).value_or(0));
    return wanted;
}

response service::notify(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    const demand wanted = demand_in(message, body, static_cast<double>(settings_.max_wait.count()));
    const field* const sent = body.find("url");
    const auto* const url = sent == nullptr ? nullptr : std::get_if<std::string>(sent);
    const auto target = url == nullptr ? std::nullopt : parse_url(*url);
    if (!target)
        refuse(400, "url must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH");
    if (!notifier_.allows(*target))
        refuse(403, "the operator does not allow calls to that host and port");
    if (!store_.exists(name))
        return not_found();
    if (closing_)
        refuse(503, "server is shutting down");
    if (call_backs_ == settings_.notify.most)
        refuse(503, "too many call-backs");
    const std::string id = store::new_id();
    ++call_backs_;
    boost::asio::co_spawn(context_.get_executor(), call_back(id, *target, name, wanted),
                          [this](const std::exception_ptr&) { --call_backs_; });
    response answer = json("{\"id\":\"" + id + "\"}");
    answer.status = 202;
    return answer;
}

/// Waits for units, and calls the receiver.
awaitable<void> service::call_back(std::string id, notify_target target, std::string name,
                                   demand wanted)
{
    grant granted = store_.try_down(name, wanted);
    if (granted.what == outcome::locked)
        granted = co_await store_.down(name, wanted);
    if (granted.what == outcome::closing)
        co_return;
    std::string_view event = "refused";
    if (granted.what == outcome::done)
        event = granted.permit.empty() ? "open" : "granted";
    else if (granted.what == outcome::locked)
        event = "timeout";
    else if (granted.what == outcome::unknown)
        event = "deleted";
    if (granted.permit.empty() && granted.undo)
    {
        // Without a lease, a unit would be lost with its receiver.
        granted.undo();
        granted.undo = {};
    }
    std::string body = "{\"id\":\"" + id + "\",\"event\":\"";
    body.append(event).append("\",\"name\":").append(quoted(name));
    if (!granted.permit.empty())
        body += ",\"permit\":\"" + granted.permit + "\",\"token\":" + std::to_string(granted.token);
    const bool delivered = co_await notifier_.deliver(std::move(target), body + '}');
    if (!delivered && granted.undo)
        granted.undo();
}

awaitable<response> service::down_later(std::string name, demand wanted)
{
    const auto count = waiters_of_.try_emplace(wanted.client, 0).first;
    if (count->second >= settings_.max_waiters_per_client)
        co_return plain(429, "too many clients with this address are waiting");
    ++count->second;
    response answer = to_response(co_await store_.down(name, wanted), name);
    if (--count->second == 0)
        waiters_of_.erase(count);
    co_return answer;
}

response service::renew(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    const auto permit = permit_in(body);
    if (!permit)
        refuse(400, "permit must be the text that down returned");
    const auto seconds =
        number_in(body, "lease", 0.1, static_cast<double>(settings_.max_lease.count()));
    std::optional<std::chrono::milliseconds> lease;
    if (seconds)
        lease = to_milliseconds(*seconds);
    return to_response(store_.renew(name, *permit, lease), name);
}

response service::free(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string& name = name_in(body);
    const auto token = number_in(body, "token", 1, static_cast<double>(largest_value));
    if (!token)
        refuse(400, "token must be the fencing token of a permit");
    return to_response(store_.free(name, static_cast<std::uint64_t>(*token)), name);
}

response service::detail(const request&, const std::string& name)
{
    const auto found = store_.detail(name, longest_detail);
    if (!found)
        return not_found();
    const auto add = [](std::string& list, const participant& next, const std::string& more)
    {
        list += (list.empty() ? "{\"client\":" : ",{\"client\":") + quoted(next.client) +
                ",\"n\":" + std::to_string(next.units) +
                ",\"age_ms\":" + std::to_string(next.age.count()) + more + '}';
    };
    std::string waiters;
    for (const participant& waiter : found->waiters)
        add(waiters, waiter, {});
    std::string permits;
    for (const participant& permit : found->permits)
        add(permits, permit,
            ",\"rest_ms\":" + std::to_string(permit.rest.count()) +
                ",\"lease_ms\":" + std::to_string(permit.lease.count()) +
                ",\"token\":" + std::to_string(permit.token));
    std::string body = listed_state(found->state);
    body += ",\"waiting\":[" + waiters + "],\"holding\":[" + permits + "]}";
    return json(std::move(body));
}

response service::list(const request& message, const std::string&)
{
    const std::size_t question = std::min(message.target.find('?'), message.target.size());
    const auto query =
        decode_form(message.target.substr(std::min(question + 1, message.target.size())));
    if (!query)
        refuse(400, "query is not percent-encoded UTF-8");
    const auto limit = static_cast<std::size_t>(number_in(*query, "limit", 1, 1000).value_or(100));
    const field* after = query->find("after");
    const auto* from = after == nullptr ? nullptr : std::get_if<std::string>(after);
    // One more shows whether there is another page.
    auto page = store_.list(from == nullptr ? std::string_view() : *from, limit + 1);
    const bool more = page.size() > limit;
    if (more)
        page.pop_back();
    std::string body = "{\"semaphores\":[";
    for (const listed& semaphore : page)
    {
        body += body.back() == '[' ? "" : ",";
        body += listed_state(semaphore) + '}';
    }
    body += "],\"next\":" + (more ? quoted(page.back().name) : "null") + '}';
    return json(std::move(body));
}

response service::follow(const request&, const std::string&)
{
    if (closing_)
        return plain(503, "server is shutting down");
    if (events_.readers() == events::most_readers)
        return plain(503, "too many readers of events");
    response answer;
    answer.content_type = "text/event-stream";
    answer.next = events_.open();
    return answer;
}

response service::metrics(const request&, const std::string&)
{
    const store_metrics numbers = store_.metrics();
    std::string body;
    const auto add =
        [&](std::string_view name, std::string_view type, std::string_view help, auto number)
    {
        body.append("# HELP turnstile_").append(name).append(" ").append(help);
        body.append("\n# TYPE turnstile_").append(name).append(" ").append(type);
        body.append("\nturnstile_")
            .append(name)
            .append(" ")
            .append(std::to_string(number))
            .append("\n");
    };
    add("semaphores", "gauge", "Semaphores that exist.", numbers.semaphores);
    add("waiters", "gauge", "Clients that wait for units.", numbers.waiters);
    add("permits", "gauge", "Leased permits.", numbers.permits);
    add("event_readers", "gauge", "Clients that read the events.", events_.readers());
    add("grants_total", "counter", "Successful down requests.", numbers.grants);
    add("withdrawn_total", "counter",
        "Waits that ended because the client hung up or the semaphore closed.", numbers.withdrawn);
    add("undone_total", "counter", "Grants that were returned because the client had hung up.",
        numbers.undone);
    add("expired_total", "counter", "Permits whose lease expired.", numbers.expired);
    body += "# HELP turnstile_answers_total Answers by status.\n# TYPE turnstile_answers_total "
            "counter\n";
    for (const auto& [status, count] : answers_)
        body += "turnstile_answers_total{status=\"" + std::to_string(status) + "\"} " +
                std::to_string(count) + '\n';
    response answer = plain(200, std::move(body));
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return answer;
}

response service::file(const request& message, const std::string&)
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
    return answer;
}

response service::healthy(const request&, const std::string&)
{
    return plain(200, "ok");
}

response service::ready(const request&, const std::string&)
{
    return closing_ ? plain(503, "server is shutting down") : plain(200, "ok");
}

}  // namespace turnstile::service
