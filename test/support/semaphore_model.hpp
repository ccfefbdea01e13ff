// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SEMAPHORE_MODEL_HPP
#define TURNSTILE_TEST_SUPPORT_SEMAPHORE_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace turnstile::test {

/**
 * @brief A simple model of a semaphore: a number of units, and a row of requests.
 *
 * Nothing here is asynchronous: the cause of an event decides the fate of a request at once. The fate is
 * the text of attempt::state() after completion.
 */
class semaphore_model
{
public:
    using id = std::size_t;

    semaphore_model(std::ptrdiff_t available, std::ptrdiff_t capacity)
        : available_(available)
        , capacity_(capacity)
    {
    }

    /// A request that will be made in a context.
    id add(std::size_t context, std::ptrdiff_t units)
    {
        requests_.push_back({units, context});
        return requests_.size() - 1;
    }

    /// The request is made. If it must not wait and the units are not available, it fails at once.
    void arrive(id who, bool may_wait)
    {
        request& r = requests_[who];
        if (!alive_)
            r.fate = "aborted";
        else if (r.units < 1 || r.units > capacity_)
            r.fate = "invalid count";
        else if (closed_)
            r.fate = "closed";
        else if (queue_.empty() && available_ >= r.units)
            grant(r);
        else if (!may_wait)
            r.fate = "timed out";
        else
            wait(who);
    }

    /// Withdraws the request if it waits.
    void withdraw(id who, const std::string& why)
    {
        if (requests_[who].fate != "waiting")
            return;
        leave(who, why);
        serve();
    }

    /// The request has completed, so its grant is delivered.
    void on_completion(id who) { requests_[who].is_complete = true; }

    /// Units are released by a permit.
    void put(std::ptrdiff_t units)
    {
        if (!alive_)
            return;
        held_ -= units;
        add(units);
        serve();
    }

    /// A permit is forgotten.
    void forget(std::ptrdiff_t units) { held_ -= units; }

    /// Adds units that no permit holds. Returns whether that is possible.
    bool release(std::ptrdiff_t units)
    {
        if (units > taken() - held_)
            return false;
        add(units);
        serve();
        return true;
    }

    void set_capacity(std::ptrdiff_t capacity)
    {
        const std::ptrdiff_t more = capacity - capacity_;
        capacity_ = capacity;
        if (more >= 0)
        {
            add(more);
        }
        else
        {
            const std::ptrdiff_t removed = std::min(available_, -more);
            available_ -= removed;
            debt_ += -more - removed;
        }
        for (const id who : std::deque<id>(queue_))
            if (requests_[who].units > capacity)
                leave(who, "invalid count");
        serve();
    }

    void close()
    {
        closed_ = true;
        fail_all("closed");
    }

    /// Drops the waiters of a context, and releases its undelivered grants.
    void destroy_context(std::size_t context)
    {
        for (request& r : requests_)
        {
            if (r.context != context || r.is_complete || r.fate == "dropped")
                continue;
            if (r.fate == "done" && alive_)
            {
                held_ -= r.units;
                add(r.units);
            }
            r.fate = "dropped";
        }
        std::erase_if(queue_, [&](id who) { return requests_[who].fate == "dropped"; });
        serve();
    }

    /// Aborts waiters and undelivered grants.
    void destroy_semaphore()
    {
        alive_ = false;
        fail_all("aborted");
        for (request& r : requests_)
            if (r.fate == "done" && !r.is_complete)
                r.fate = "aborted";
    }

    [[nodiscard]] bool alive() const { return alive_; }
    [[nodiscard]] bool is_closed() const { return closed_; }
    [[nodiscard]] std::ptrdiff_t available() const { return available_; }
    [[nodiscard]] std::ptrdiff_t capacity() const { return capacity_; }
    [[nodiscard]] const std::string& fate_of(id who) const { return requests_[who].fate; }
    [[nodiscard]] std::ptrdiff_t units_of(id who) const { return requests_[who].units; }

    /// The number of unavailable units. Permits hold some of them.
    [[nodiscard]] std::ptrdiff_t taken() const { return capacity_ - available_ + debt_; }
    [[nodiscard]] std::ptrdiff_t held() const { return held_; }

private:
    struct request
    {
        std::ptrdiff_t units;
        std::size_t context;
        std::string fate{"idle"};
        bool is_complete = false;
    };

    void wait(id who)
    {
        requests_[who].fate = "waiting";
        queue_.push_back(who);
    }

    void leave(id who, const std::string& why)
    {
        std::erase(queue_, who);
        requests_[who].fate = why;
    }

    void grant(request& r)
    {
        r.fate = "done";
        available_ -= r.units;
        held_ += r.units;
    }

    void add(std::ptrdiff_t units)
    {
        const std::ptrdiff_t paid = std::min(debt_, units);
        debt_ -= paid;
        available_ += units - paid;
    }

    void serve()
    {
        while (!queue_.empty() && requests_[queue_.front()].units <= available_)
        {
            grant(requests_[queue_.front()]);
            queue_.pop_front();
        }
    }

    void fail_all(const std::string& why)
    {
        for (const id who : queue_)
            requests_[who].fate = why;
        queue_.clear();
    }

    bool alive_ = true;
    bool closed_ = false;
    std::ptrdiff_t available_;
    std::ptrdiff_t capacity_;
    std::ptrdiff_t debt_ = 0;
    std::ptrdiff_t held_ = 0;
    std::deque<id> queue_;
    std::vector<request> requests_;
};

}  // namespace turnstile::test

#endif
