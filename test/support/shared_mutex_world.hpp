// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_SHARED_MUTEX_WORLD_HPP

#include <algorithm>
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/random_runs.hpp>
#include <support/shared_mutex_model.hpp>
#include <support/start.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

/**
 * @brief A random walk through the operations of a shared mutex, compared with the model step
 *        by step.
 *
 * Everything runs on the thread of the test, with two contexts and a manual clock. Each function does the
 * same to the mutex as to the model; check() compares them.
 */
template <class Mutex>
class shared_mutex_walk
{
public:
    explicit shared_mutex_walk(std::uint64_t seed)
        : dice_(seed)
    {
        for (auto& each : contexts_)
            each = std::make_unique<boost::asio::io_context>();
        mutex_ = std::make_unique<Mutex>(*contexts_[0]);
    }

    void run()
    {
        const unsigned steps = 10 + dice_.below(60);
        for (unsigned i = 0; i < steps && mutex_ && all_is_well(); ++i)
        {
            step();
            check();
        }
        if (mutex_ && dice_.coin())
            let_all_go();
        end();
    }

    /// The actions so far, for debugging.
    [[nodiscard]] std::string story() const { return story_.str(); }

private:
    using id = shared_mutex_model::id;
    using exclusive_guard = typename Mutex::guard_type;
    using shared_guard = typename Mutex::shared_guard_type;
    using upgrade_guard = typename Mutex::upgrade_guard_type;

    /// An attempt and its result, which is one of the three guards according to its mode.
    struct record
    {
        int context = 0;
        bool coroutine = false;
        bool gone = false;
        bool is_upgrade = false;
        manual_clock::time_point deadline = manual_clock::time_point::max();
        attempt<exclusive_guard> exclusive;
        attempt<shared_guard> shared;
        attempt<upgrade_guard> upgrade;
        hold asked_for = hold::shared;
    };

    // Steps.

    void step()
    {
        switch (dice_.below(20))
        {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
            return start();
        case 6:
            return try_once();
        case 7:
            return try_now();
        case 8:
        case 9:
            return cancel_some();
        case 10:
        case 11:
        case 12:
            return with_some([&](id who) { return owns(who); }, [&](id who) { release(who); });
        case 13:
        case 14:
            return upgrade_some();
        case 15:
            return downgrade_some();
        case 16:
            return advance();
        case 17:
            return settle();
        case 18:
            story_ << "\nstep";
            some_context().restart();
            some_context().poll_one();
            return;
        default:
            return destroy_some();
        }
    }

    void start()
    {
        record& r = add(random_hold(), " lock ");
        const id who = records_.size() - 1;
        const bool timed = dice_.below(4) == 0;
        if (timed)
            r.deadline = last_deadline_ =
                std::max(last_deadline_, manual_clock::now()) + manual_clock::duration(1);
        model_.arrive(who, true);
        const auto until = r.deadline;
        Mutex& m = *mutex_;
        switch (r.asked_for)
        {
        case hold::shared:
            return timed ? go(r, r.shared,
                              [&m, until] { return m.async_try_lock_shared_until(until); })
                         : go(r, r.shared, [&m] { return m.async_lock_shared(); });
        case hold::upgrade:
            return timed ? go(r, r.upgrade,
                              [&m, until] { return m.async_try_lock_upgrade_until(until); })
                         : go(r, r.upgrade, [&m] { return m.async_lock_upgrade(); });
        case hold::exclusive:
            return timed ? go(r, r.exclusive, [&m, until] { return m.async_try_lock_until(until); })
                         : go(r, r.exclusive, [&m] { return m.async_lock(); });
        }
    }

    void try_once()
    {
        record& r = add(random_hold(), " try ");
        model_.arrive(records_.size() - 1, false);
        Mutex& m = *mutex_;
        switch (r.asked_for)
        {
        case hold::shared:
            return go(r, r.shared, [&m] { return m.async_try_lock_shared(); });
        case hold::upgrade:
            return go(r, r.upgrade, [&m] { return m.async_try_lock_upgrade(); });
        case hold::exclusive:
            return go(r, r.exclusive, [&m] { return m.async_try_lock(); });
        }
    }

    /// Tries the lock without an operation.
    void try_now()
    {
        record& r = add(random_hold(), " try now ");
        const id who = records_.size() - 1;
        model_.arrive(who, false);
        switch (r.asked_for)
        {
        case hold::shared:
            return complete(who, r.shared, mutex_->try_lock_shared());
        case hold::upgrade:
            return complete(who, r.upgrade, mutex_->try_lock_upgrade());
        case hold::exclusive:
            return complete(who, r.exclusive, mutex_->try_lock());
        }
    }

    void upgrade_some()
    {
        with_some([&](id who) { return owns(who) && model_.kind(who) == hold::upgrade; },
                  [&](id from)
                  {
                      record& r = add(hold::exclusive, " upgrade ");
                      r.is_upgrade = true;
                      story_ << "from " << from;
                      model_.arrive_to_upgrade(records_.size() - 1, from);
                      upgrade_guard& guard = records_[from]->upgrade.value();
                      go(r, r.exclusive, [&m = *mutex_, &guard] { return m.async_upgrade(guard); });
                  });
    }

    void downgrade_some()
    {
        with_some([&](id who) { return owns(who) && model_.kind(who) != hold::shared; },
                  [&](id who) { downgrade(who); });
    }

    void downgrade(id who)
    {
        record& r = *records_[who];
        const bool writes = model_.kind(who) == hold::exclusive;
        const hold to = writes && dice_.coin() ? hold::upgrade : hold::shared;
        story_ << "\ndowngrade " << who << " to " << static_cast<int>(to);
        if (!writes)
            r.shared.value() = mutex_->downgrade(std::move(r.upgrade.value()));
        else if (to == hold::shared)
            r.shared.value() = mutex_->downgrade(std::move(r.exclusive.value()));
        else
            r.upgrade.value() = mutex_->downgrade_to_upgrade(std::move(r.exclusive.value()));
        model_.downgrade(who, to);
    }

    void cancel_some()
    {
        constexpr boost::asio::cancellation_type types[] = {
            boost::asio::cancellation_type::total, boost::asio::cancellation_type::partial,
            boost::asio::cancellation_type::terminal};
        with_some([&](id who) { return !is_complete(*records_[who]) && !records_[who]->gone; },
                  [&](id who)
                  {
                      record& r = *records_[who];
                      story_ << "\ncancel " << who;
                      with_attempt(r, [&](auto& a) { a.cancel(types[dice_.below(3)]); });
                      model_.withdraw(who, fate::aborted);
                      // The signal for a coroutine goes through its executor.
                      if (r.coroutine)
                          drain(*contexts_[r.context]);
                  });
    }

    void release(id who)
    {
        story_ << "\nrelease " << who;
        with_guard(who,
                   [&](auto& guard)
                   {
                       if (dice_.coin())
                           guard.unlock();
                       else
                           guard = std::decay_t<decltype(guard)>();
                   });
        model_.release(who);
    }

    /// Deadlines are a second apart, so that no two attempts time out together.
    void advance()
    {
        story_ << "\nadvance";
        manual_clock::advance(manual_clock::duration(1));
        for (auto& each : contexts_)
            drain(*each);
        for (id who = 0; who < records_.size(); ++who)
            if (records_[who]->deadline <= manual_clock::now())
                model_.withdraw(who, fate::timed_out);
        settle();
    }

    /// Runs all contexts until they have no work: then every decision has been delivered.
    void settle()
    {
        story_ << "\nsettle";
        for (auto& each : contexts_)
            drain(*each);
        check();
        for (id who = 0; who < records_.size(); ++who)
        {
            const record& r = *records_[who];
            const fate f = model_.fate_of(who);
            if (!r.gone && is_complete(r) == (f == fate::waiting))
                BOOST_ERROR("attempt " << who << " is " << f
                                       << (is_complete(r) ? "" : ", not complete"));
            if (is_complete(r) && owns(who) != model_.holds(who))
                BOOST_ERROR("attempt " << who << (owns(who) ? " owns something" : " owns nothing"));
        }
    }

    void destroy_some()
    {
        if (dice_.below(8) == 0)
        {
            story_ << "\ndestroy mutex";
            mutex_.reset();
            model_.destroy_mutex();
            return;
        }
        const int c = static_cast<int>(dice_.below(2));
        destroy_context(c);
        contexts_[c] = std::make_unique<boost::asio::io_context>();
    }

    void destroy_context(int c)
    {
        story_ << "\ndestroy context " << c;
        contexts_[c].reset();
        model_.destroy_context(c);
        for (auto& each : records_)
            if (each->context == c && !is_complete(*each))
                each->gone = true;
    }

    // The end.

    void let_all_go()
    {
        settle();
        for (bool some = true; some && all_is_well();)
        {
            some = false;
            with_some([&](id who) { return owns(who); },
                      [&](id who)
                      {
                          some = true;
                          release(who);
                      });
            settle();
        }
        for (id who = 0; who < records_.size(); ++who)
            BOOST_TEST((model_.fate_of(who) != fate::waiting));
        BOOST_TEST(mutex_->try_lock().has_value());
    }

    void end()
    {
        if (dice_.coin())
            mutex_.reset();
        for (auto& each : contexts_)
            each.reset();
        mutex_.reset();
        for (auto& each : records_)
            with_attempt(*each, [](const auto& a) { BOOST_TEST(a.state() != "waiting"); });
    }

    // Comparing.

    void check()
    {
        for (id who = 0; who < records_.size(); ++who)
        {
            record& r = *records_[who];
            if (!is_complete(r))
                continue;
            model_.on_completion(who);
            const std::string expected = name_of(model_.fate_of(who));
            const std::string state = state_of(r);
            if (state != expected)
                BOOST_ERROR("attempt " << who << " is " << state << ", not " << expected);
            if (owns(who))
                check_guard(who);
        }
    }

    void check_guard(id who)
    {
        with_guard(who,
                   [&](const auto& guard)
                   {
                       if (guard.fencing_token() != model_.number(who))
                           BOOST_ERROR("attempt " << who << " has number " << guard.fencing_token()
                                                  << ", not " << model_.number(who));
                       BOOST_TEST(guard.valid() == model_.alive());
                   });
    }

    static std::string name_of(fate f)
    {
        switch (f)
        {
        case fate::granted:
            return "done";
        case fate::aborted:
            return "aborted";
        case fate::timed_out:
            return "timed out";
        default:
            return "not complete";
        }
    }

    // Records.

    record& add(hold wanted, const char* what)
    {
        auto r = std::make_unique<record>();
        r->asked_for = wanted;
        r->context = static_cast<int>(dice_.below(2));
        r->coroutine = dice_.coin();
        story_ << '\n'
               << records_.size() << what << static_cast<int>(wanted) << " context " << r->context
               << (r->coroutine ? " coroutine " : " ");
        model_.add(r->context, wanted);
        records_.push_back(std::move(r));
        return *records_.back();
    }

    template <class Guard, class Make>
    void go(record& r, attempt<Guard>& a, Make make)
    {
        boost::asio::io_context& context = *contexts_[r.context];
        // A coroutine begins when its context runs.
        if (r.coroutine)
            test::start(path::coroutine, context, a, make);
        else
            test::start(path::handler, boost::asio::any_io_executor(context.get_executor()), a,
                        make);
    }

    template <class Guard>
    void complete(id who, attempt<Guard>& a, std::optional<Guard> result)
    {
        const auto life = a.begin();
        a.complete(error_code(), std::move(result));
        BOOST_TEST((model_.fate_of(who) != fate::waiting));
    }

    template <class F>
    static auto with_attempt(record& r, F f)
    {
        switch (r.asked_for)
        {
        case hold::shared:
            return f(r.shared);
        case hold::upgrade:
            return f(r.upgrade);
        default:
            return f(r.exclusive);
        }
    }

    /// Calls f with the guard of an attempt. After a downgrade, its type differs from the requested mode.
    template <class F>
    auto with_guard(id who, F f)
    {
        switch (model_.kind(who))
        {
        case hold::shared:
            return f(records_[who]->shared.value());
        case hold::upgrade:
            return f(records_[who]->upgrade.value());
        default:
            return f(records_[who]->exclusive.value());
        }
    }

    static bool is_complete(const record& r)
    {
        return r.exclusive.is_complete() || r.shared.is_complete() || r.upgrade.is_complete();
    }

    static std::string state_of(record& r)
    {
        return with_attempt(r, [](const auto& a) { return a.state(); });
    }

    bool owns(id who)
    {
        return with_guard(who, [](const auto& guard) { return guard.owns_lock(); });
    }

    template <class Condition, class Action>
    void with_some(Condition condition, Action action)
    {
        std::vector<id> candidates;
        for (id who = 0; who < records_.size(); ++who)
            if (condition(who))
                candidates.push_back(who);
        if (!candidates.empty())
            action(dice_.one_of(candidates));
    }

    hold random_hold() { return static_cast<hold>(dice_.below(3)); }
    boost::asio::io_context& some_context() { return *contexts_[dice_.below(2)]; }

    dice dice_;
    std::ostringstream story_;
    shared_mutex_model model_;
    manual_clock::time_point last_deadline_ = manual_clock::now();
    // The guards are destroyed last.
    std::vector<std::unique_ptr<record>> records_;
    std::unique_ptr<Mutex> mutex_;
    std::array<std::unique_ptr<boost::asio::io_context>, 2> contexts_;
};

/// One random schedule.
template <class Mutex>
void walk(std::uint64_t seed)
{
    shared_mutex_walk<Mutex> schedule(seed);
    schedule.run();
    if (!all_is_well())
        BOOST_TEST_MESSAGE(schedule.story());
}

}  // namespace turnstile::test

#endif
