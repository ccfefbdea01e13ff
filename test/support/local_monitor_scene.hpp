// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCAL_MONITOR_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_LOCAL_MONITOR_SCENE_HPP

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/section_attempt.hpp>
#include <turnstile/event.hpp>
#include <turnstile/monitor.hpp>

namespace turnstile::test {

/// A protected number, two conditions, and a context for all operations.
struct local_monitor_scene
{
    using number = monitor<int>;
    using section = number::section;
    // Type-erased, so that each kind is compiled once.
    using body = std::function<boost::asio::awaitable<void>(section&)>;
    using body_int = std::function<boost::asio::awaitable<int>(section&)>;
    using plain = std::function<void(section&)>;
    using plain_int = std::function<int(section&)>;

    explicit local_monitor_scene(path p, int value = 0)
        : how(p)
        , go(context, event_reset::automatic)
        , guarded(context, value, "n")
        , changed(guarded.make_condition("changed"))
        , other(guarded.make_condition("other"))
    {
    }

    template <class T, class Body>
    void launch(attempt<T>& a, const Body& f)
    {
        start_section(how, context, a, [this, f] { return guarded.async_with(f); });
    }

    void run(attempt<>& a, const body& f) { launch(a, f); }
    void run(attempt<int>& a, const body_int& f) { launch(a, f); }
    void run_plain(attempt<>& a, const plain& f) { launch(a, f); }
    void run_plain(attempt<int>& a, const plain_int& f) { launch(a, f); }

    /// The current number; empty if the lock is held.
    std::optional<int> look()
    {
        attempt<int> a;
        start_section(path::handler, context, a,
                      [this] { return guarded.async_with([](section& s) { return *s; }); });
        if (a.state() == "done")
            return a.value();
        a.cancel();
        drain(context);
        return {};
    }

    /// Sets the number, and notifies all waiters.
    void set(int value)
    {
        attempt<> a;
        run_plain(a,
                  [&](section& s)
                  {
                      *s = value;
                      s.notify_all(changed);
                  });
    }

    /// A body that waits until the number is at least @p much, and subtracts it.
    body taking(int much, char name = '.')
    {
        return [this, much, name](section& s) -> boost::asio::awaitable<void>
        {
            story += '(';
            co_await s.async_wait(changed, [=](const int& n) { return n >= much; });
            *s -= much;
            story += name;
        };
    }

    path how;
    std::string story;
    boost::asio::io_context context;
    event go;
    number guarded;
    number::condition_type changed;
    number::condition_type other;
};

}  // namespace turnstile::test

#endif
