// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_EVENT_STREAM_HPP
#define TURNSTILE_TEST_SERVICE_EVENT_STREAM_HPP

#include "http_client.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace turnstile::test {

/// A server-sent event.
struct sent_event
{
    unsigned long long id = 0;
    /// Empty if the stream has ended.
    std::string kind;
    std::string data;
};

/// A reader of /events.
class event_stream
{
public:
    explicit event_stream(const site& server, const std::string& headers = {})
        : client_(server)
    {
        client_.send(request_text("GET", "/events", "", "", headers));
        head_ = client_.receive();
    }

    [[nodiscard]] const http_answer& head() const noexcept { return head_; }

    [[nodiscard]] http_client& client() noexcept { return client_; }

    /// The data of all events so far.
    [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

    sent_event next()
    {
        sent_event found;
        while (found.kind.empty())
        {
            const std::string frame = client_.receive_until("\n\n");
            if (frame.empty())
                return found;
            found.id = std::strtoull(line(frame, "id: ").c_str(), nullptr, 10);
            found.kind = line(frame, "event: ");
            found.data = line(frame, "data: ");
        }
        texts_.push_back(found.data);
        return found;
    }

    /// The next event of that semaphore.
    sent_event next_of(const std::string& name)
    {
        const std::string start = "{\"name\":\"" + name + '"';
        while (true)
        {
            sent_event found = next();
            if (found.kind.empty() || found.data.starts_with(start))
                return found;
        }
    }

    /// Reads the pages of the state, and returns them.
    std::vector<std::string> skip_state()
    {
        std::vector<std::string> pages;
        while (true)
        {
            const sent_event found = next();
            if (found.kind == "snapshot")
                pages.push_back(found.data);
            if (found.kind.empty() || found.data.find("\"last\":true") != std::string::npos)
                return pages;
        }
    }

private:
    static std::string line(const std::string& frame, const std::string& start)
    {
        const std::size_t found = ('\n' + frame).find('\n' + start);
        if (found == std::string::npos)
            return {};
        const std::size_t begin = found + start.size();
        return frame.substr(begin, frame.find('\n', begin) - begin);
    }

    http_client client_;
    http_answer head_;
    std::vector<std::string> texts_;
};

}  // namespace turnstile::test

#endif
