// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/events.hpp"

#include "service/answers.hpp"
#include "service/decode.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace turnstile::service {

namespace {

/// Proxies often close a connection after a minute without a byte.
constexpr std::chrono::seconds heart_beat(15);

/// The time between two comparisons of a shared store with the state that the readers know.
constexpr std::chrono::seconds refresh_interval(1);

/// How long comparisons may fail before the streams end, so that no reader takes an old state for the present one.
constexpr std::chrono::seconds longest_gap(15);

/// About the largest size of one write to a reader.
constexpr std::size_t part_size = std::size_t(64) * 1024;

/// The largest size of the events that the readers share.
constexpr std::size_t most_recent_bytes = std::size_t(1024) * 1024;

std::string_view to_string(happening what)
{
    // In the order of `happening`.
    constexpr std::array<std::string_view, 9> names{"created",  "deleted", "value",
                                                    "waiting",  "left",    "granted",
                                                    "released", "renewed", "changed"};
    return names.at(static_cast<std::size_t>(what));
}

redis::listed_semaphore state_of(const event& made)
{
    return {std::string(made.name), made.value, made.waiters, made.permits};
}

/// The fields that not all kinds of events have.
std::string details(const event& made)
{
    if (made.what == happening::changed)
        return {};
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
    reader(const executor& ex, std::shared_ptr<reader_set> others)
        : readers(std::move(others))
        , news(ex)
    {
        readers->insert(this);
    }

    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;

    ~reader() { readers->erase(this); }

    std::shared_ptr<reader_set> readers;
    /// Expires when the next comment is due, and is cancelled by an event.
    timer news;
    /// The id of the last event that was sent, or that the sent part of the state includes.
    std::uint64_t seen = 0;
    /// The last name of the pages that were sent: empty before the first page, nothing after the last one.
    std::optional<std::string> after = "";
    /// Whether the stream ends, because the changes of other processes are unknown.
    bool is_cut_off = false;
    /// When the last text was sent.
    std::chrono::steady_clock::time_point sent = std::chrono::steady_clock::now();
};

events::events(boost::asio::io_context& context, store& observed)
    : executor_(context.get_executor())
    , store_(observed)
    , pause_(context)
{
    store_.observe([this](const event& made) { publish(made); },
                   [this] { return readers() != 0 || follows_; });
}

std::function<awaitable<response>()> events::open()
{
    auto opened = std::make_shared<reader>(executor_, readers_);
    if (store_.is_shared() && !std::exchange(follows_, true))
        boost::asio::co_spawn(executor_, follow_others(), boost::asio::detached);
    return [this, opened = std::move(opened)] { return next(opened); };
}

std::size_t events::readers() const noexcept
{
    return readers_->size();
}

void events::close()
{
    closing_ = true;
    pause_.cancel();
    resume_readers();
}

void events::publish(const event& made)
{
    ++last_;
    if (store_.is_shared())
    {
        if (made.what == happening::deleted)
        {
            known_.erase(std::string(made.name));
            erased_.insert_or_assign(std::string(made.name), last_);
        }
        else
            known_.insert_or_assign(std::string(made.name), known{state_of(made), last_});
    }
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
        data = to_text(state_of(made)) + details(made) + '}';
    recent_.push_back(frame(last_, to_string(made.what), data));
    recent_bytes_ += recent_.back().size();
    while (recent_bytes_ > most_recent_bytes)
    {
        recent_bytes_ -= recent_.front().size();
        recent_.pop_front();
    }
    resume_readers();
}

void events::resume_readers()
{
    for (reader* const each : *readers_)
        each->news.cancel();
}

/// The texts that a reader has not received.
std::string events::unread_texts(reader& from) const
{
    const std::uint64_t forgotten = last_ - recent_.size();
    // Events from before the first page are part of the state, which the stream begins with.
    if (from.after == "" || from.seen < forgotten)
    {
        from.seen = last_;
        from.after = "";
    }
    std::string text;
    while (from.seen != last_ && text.size() < part_size)
    {
        text += recent_[from.seen - forgotten];
        ++from.seen;
    }
    return text;
}

/// The next page of the state; empty if it is not available yet.
awaitable<std::string> events::page(reader& from)
{
    constexpr std::size_t most = 100;
    const std::uint64_t id = last_;
    const std::string after = from.after.value_or("");
    listed_page found;
    if (store_.is_shared())
        found = known_page(after, most);
    else
        found = co_await store_.list(after, most);
    if (found.what != outcome::done)
        co_return std::string();
    std::string list;
    std::size_t count = 0;
    while (count != found.semaphores.size() && list.size() < part_size)
        list += (list.empty() ? "" : ",") + to_text(found.semaphores[count++]) + '}';
    from.after.reset();
    if (count != found.semaphores.size() || found.next)
        from.after = found.semaphores[count - 1].name;
    co_return frame(id, "snapshot",
                    std::string("{\"first\":") + (after.empty() ? "true" : "false") + ",\"last\":" +
                        (from.after ? "false" : "true") + ",\"semaphores\":[" + list + "]}");
}

awaitable<response> events::next(std::shared_ptr<reader> from)
{
    response part;
    while (!closing_ && !from->is_cut_off)
    {
        part.body = unread_texts(*from);
        // A page includes the changes of all events so far, so these events must be sent before it.
        if (from->after && from->seen == last_)
        {
            const std::string text = co_await page(*from);
            part.body += text;
        }
        if (!part.body.empty())
            break;
        const auto comment = from->sent + heart_beat;
        from->news.expires_at(comment);
        [[maybe_unused]] auto [error] = co_await from->news.async_wait(as_result);
        if (std::chrono::steady_clock::now() >= comment)
        {
            part.body = ":\n\n";
            break;
        }
    }
    from->sent = std::chrono::steady_clock::now();
    co_return part;
}

// --- shared stores ------------------------------------------------------------------------------

/// Reports the changes of other processes as long as there are readers and the store is available.
awaitable<void> events::follow_others()
{
    auto compared = std::chrono::steady_clock::now();
    while (!closing_ && readers() != 0)
    {
        const bool is_complete = co_await compare();
        const auto now = std::chrono::steady_clock::now();
        if (is_complete)
            compared = now;
        if (closing_ || now - compared > longest_gap)
            break;
        if (is_complete && !std::exchange(knows_all_, true))
            resume_readers();
        pause_.expires_after(refresh_interval);
        [[maybe_unused]] auto [cancelled] = co_await pause_.async_wait(as_result);
    }
    for (reader* const each : *readers_)
        each->is_cut_off = true;
    resume_readers();
    known_.clear();
    knows_all_ = false;
    follows_ = false;
}

/// A page of the state that the readers know.
listed_page events::known_page(const std::string& after, std::size_t limit) const
{
    listed_page page;
    if (!knows_all_)
        return page;
    page.what = outcome::done;
    auto entry = known_.upper_bound(after);
    for (; entry != known_.end() && page.semaphores.size() != limit; ++entry)
        page.semaphores.push_back(entry->second.state);
    if (entry != known_.end())
        page.next = page.semaphores.back().name;
    return page;
}

/// Compares the whole list with the state that the readers know. Returns false if the list is not available.
awaitable<bool> events::compare()
{
    constexpr std::size_t most = 1000;
    erased_.clear();
    for (auto& [name, each] : known_)
        each.is_seen = false;
    std::optional<std::string> after = "";
    while (after)
    {
        const std::uint64_t asked = last_;
        const listed_page page = co_await store_.list(*after, most);
        if (page.what != outcome::done || closing_)
            co_return false;
        for (const redis::listed_semaphore& found : page.semaphores)
            compare(found, asked);
        after = page.next;
    }
    std::vector<std::string> removed;
    for (const auto& [name, each] : known_)
        if (!each.is_seen)
            removed.push_back(name);
    for (const std::string& name : removed)
        publish({.what = happening::deleted, .name = name});
    co_return true;
}

/// Compares a semaphore with the state that the readers know. An event after the request for the list may be newer.
void events::compare(const redis::listed_semaphore& found, std::uint64_t asked)
{
    const auto erased = erased_.find(found.name);
    if (erased != erased_.end() && erased->second > asked)
        return;
    const auto [entry, is_new] = known_.try_emplace(found.name, known{found, asked});
    entry->second.is_seen = true;
    // Readers that have received no page yet will receive a new semaphore with the first one.
    if (entry->second.event > asked || (is_new ? !knows_all_ : entry->second.state == found))
        return;
    const auto what = is_new ? happening::created : happening::changed;
    publish({what, found.name, found.value, found.waiters, found.permits, found.value, 0, {}, {}});
}

}  // namespace turnstile::service
