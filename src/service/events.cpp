// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/events.hpp"

#include "service/decode.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string_view>
#include <utility>

namespace turnstile::service {

namespace {

/// Proxies often close a connection after a minute without a byte.
constexpr std::chrono::seconds heart_beat(15);

/// About the largest size of one write to a reader.
constexpr std::size_t part_size = std::size_t(64) * 1024;

/// The largest size of the events that the readers share.
constexpr std::size_t most_recent_bytes = std::size_t(1024) * 1024;

std::string_view to_string(happening what)
{
    constexpr std::array<std::string_view, 8> names{"created", "deleted", "value",    "waiting",
                                                    "left",    "granted", "released", "renewed"};
    return names.at(static_cast<std::size_t>(what));
}

std::string state(std::string_view name, std::int64_t value, std::size_t waiters,
                  std::size_t permits)
{
    return "{\"name\":" + quoted(name) + ",\"value\":" + std::to_string(value) +
           ",\"waiters\":" + std::to_string(waiters) + ",\"permits\":" + std::to_string(permits);
}

/// The fields that not all kinds of events have.
std::string details(const event& made)
{
    std::string text = ",\"n\":" + std::to_string(made.units);
    if (made.token != 0)
        text += ",\"token\":" + std::to_string(made.token);
    if (made.what == happening::granted || made.what == happening::left)
        text += ",\"waited_ms\":" + std::to_string(made.waited.count());
    if (!made.reason.empty())
        text.append(",\"reason\":\"").append(made.reason).append("\"");
    return text;
}

std::string frame(std::uint64_t id, std::string_view kind, std::string_view data)
{
    std::string text = "id: " + std::to_string(id) + "\nevent: ";
    text.append(kind).append("\ndata: ").append(data).append("\n\n");
    return text;
}

}  // namespace

struct events::reader
{
    reader(const executor& ex, std::uint64_t last, std::shared_ptr<const int> counter)
        : counted(std::move(counter))
        , timer(ex)
        , seen(last)
    {
    }

    std::shared_ptr<const int> counted;
    boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                      boost::asio::wait_traits<std::chrono::steady_clock>, executor>
        timer;
    /// Whether the list of sleeping readers contains it.
    bool listed = false;
    /// The id of the last event that was sent, or that the sent part of the state includes.
    std::uint64_t seen;
    /// Whether there are more pages of the state.
    bool paging = true;
    bool first_page = true;
    /// The last name of the pages that were sent.
    std::string after;
};

events::events(boost::asio::io_context& context, store& observed)
    : executor_(context.get_executor())
    , store_(observed)
{
    store_.observe([this](const event& made) { publish(made); });
}

std::function<awaitable<response>()> events::open()
{
    std::erase_if(asleep_, [](const auto& waiter) { return waiter.expired(); });
    return [this, opened = std::make_shared<reader>(executor_, last_, counter_)]
    { return next(opened); };
}

std::size_t events::readers() const noexcept
{
    return static_cast<std::size_t>(counter_.use_count()) - 1;
}

void events::close()
{
    closing_ = true;
    wake();
}

void events::publish(const event& made)
{
    ++last_;
    if (readers() == 0)
    {
        recent_.clear();
        recent_bytes_ = 0;
        return;
    }
    std::string data;
    if (made.what == happening::deleted)
        data = "{\"name\":" + quoted(made.name) + '}';
    else
        data = state(made.name, made.value, made.waiters, made.permits) + details(made) + '}';
    recent_.push_back(frame(last_, to_string(made.what), data));
    recent_bytes_ += recent_.back().size();
    while (recent_bytes_ > most_recent_bytes)
    {
        recent_bytes_ -= recent_.front().size();
        recent_.pop_front();
    }
    wake();
}

void events::wake()
{
    for (const auto& waiter : std::exchange(asleep_, {}))
    {
        if (const auto found = waiter.lock())
        {
            found->listed = false;
            found->timer.cancel();
        }
    }
}

/// The texts that a reader has not received.
std::string events::take(reader& from) const
{
    const std::uint64_t forgotten = last_ - recent_.size();
    if (from.seen < forgotten)
    {
        from.seen = last_;
        from.paging = true;
        from.first_page = true;
        from.after.clear();
    }
    std::string text;
    while (from.seen != last_ && text.size() < part_size)
    {
        text += recent_[from.seen - forgotten];
        ++from.seen;
    }
    // A page includes all events, so none that is older may follow it.
    if (from.paging && from.seen == last_)
        text += page(from);
    return text;
}

std::string events::page(reader& from) const
{
    constexpr std::size_t most = 100;
    const auto semaphores = store_.list(from.after, most);
    std::string list;
    std::size_t count = 0;
    while (count != semaphores.size() && list.size() < part_size)
    {
        const listed& next = semaphores[count++];
        list += (list.empty() ? "" : ",") +
                state(next.name, next.value, next.waiters, next.permits) + '}';
    }
    if (count != 0)
        from.after = semaphores[count - 1].name;
    from.paging = count == most || count != semaphores.size();
    const bool first = std::exchange(from.first_page, false);
    return frame(last_, "snapshot",
                 std::string("{\"first\":") + (first ? "true" : "false") + ",\"last\":" +
                     (from.paging ? "false" : "true") + ",\"semaphores\":[" + list + "]}");
}

awaitable<response> events::next(std::shared_ptr<reader> from)
{
    response part;
    while (!closing_)
    {
        part.body = take(*from);
        if (!part.body.empty())
            break;
        if (!from->listed)
        {
            from->listed = true;
            asleep_.push_back(from);
        }
        from->timer.expires_after(heart_beat);
        auto [error] =
            co_await from->timer.async_wait(boost::asio::as_tuple(boost::asio::deferred));
        if (!error)
        {
            part.body = ":\n\n";
            break;
        }
    }
    co_return part;
}

}  // namespace turnstile::service
