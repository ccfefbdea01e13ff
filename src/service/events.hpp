// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_EVENTS_HPP
#define TURNSTILE_SERVICE_EVENTS_HPP

#include "service/message.hpp"
#include "service/store.hpp"

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace turnstile::service {

/**
 * @brief The server-sent events of a @ref store.
 *
 * A reader first receives the state in pages, and then the events. All readers share the texts of the last
 * events. A reader that is so slow that it misses dropped events receives the state again. So the memory does not
 * grow with the delay of a reader.
 *
 * If the store is shared, this class finds the changes of other processes: while there are readers, it compares
 * the list of the store with a copy of its own, once a second. The pages for new readers come from that copy. The
 * streams end if the list is not available for a while.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class events
{
public:
    static constexpr std::size_t most_readers = 1000;

    /// Observes @p observed, which has to live as long as this object.
    events(boost::asio::io_context& context, store& observed);

    /// A new reader. Each call of the result waits for the next text of the stream; it is empty at the end.
    std::function<awaitable<response>()> open();

    [[nodiscard]] std::size_t readers() const noexcept;

    /// Ends the streams.
    void close();

private:
    struct reader;
    using reader_set = std::unordered_set<reader*>;

    void publish(const event& made);
    void resume_readers();
    std::string unread_texts(reader& from) const;
    awaitable<std::string> page(reader& from);
    [[nodiscard]] listed_page known_page(const std::string& after, std::size_t limit) const;
    awaitable<void> follow_others();
    awaitable<bool> compare();
    void compare(const redis::listed_semaphore& found, std::uint64_t asked);
    awaitable<response> next(std::shared_ptr<reader> from);

    executor executor_;
    store& store_;
    bool closing_ = false;
    /// The id of the last event.
    std::uint64_t last_ = 0;
    /// The texts of the last events.
    std::deque<std::string> recent_;
    std::size_t recent_bytes_ = 0;
    /// Each reader has a copy of the pointer: it may outlive this object in a coroutine that never resumes.
    std::shared_ptr<reader_set> readers_ = std::make_shared<reader_set>();
    /// A semaphore of a shared store, and the last event about it.
    struct known
    {
        redis::listed_semaphore state;
        std::uint64_t event = 0;
        /// Whether the present comparison has found it, or an event has followed since the comparison began.
        bool is_seen = true;
    };
    /// The semaphores of a shared store, as the events up to last_ and the comparisons describe them. Pages and events
    /// come from here, so all readers know the same state.
    std::map<std::string, known, std::less<>> known_;
    /// The semaphores that were deleted since the last comparison began, with the ids of these events: the list may be
    /// older.
    std::unordered_map<std::string, std::uint64_t> erased_;
    /// Whether known_ is complete: a comparison has succeeded since the first reader came.
    bool knows_all_ = false;
    bool follows_ = false;
    timer pause_;
};

}  // namespace turnstile::service

#endif
