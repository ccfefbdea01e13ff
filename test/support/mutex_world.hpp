// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_MUTEX_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_MUTEX_WORLD_HPP

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <support/manual_clock.hpp>
#include <support/mutex_model.hpp>
#include <support/print.hpp>
#include <turnstile/async_mutex.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

/// How an attempt acquires the lock.
struct attempt_plan
{
    enum class request
    {
        lock,
        timed,
        enter,
        try_once,
    };

    request what = request::lock;
    /// In a coroutine, otherwise with a callback. A coroutine begins when its context runs it.
    bool coroutine = false;
    /// The guard stays in the frame of the coroutine, otherwise in an object that outlives
    /// all contexts.
    bool stays = false;
    /// Runs on the context's strand, otherwise on the context itself.
    bool strand = false;
    int context = 0;
    /// The time limit of a timed attempt; at least 1.
    manual_clock::duration time_limit{1};
};

inline std::ostream& operator<<(std::ostream& stream, const attempt_plan& how)
{
    constexpr const char* requests[] = {" lock", " timed", " enter", " try"};
    return stream << requests[static_cast<int>(how.what)] << (how.coroutine ? " coroutine" : "")
                  << (how.stays ? " stays" : "") << (how.strand ? " strand" : "") << " context "
                  << how.context << " time limit " << how.time_limit.count();
}

/// The ways to release a lock.
enum class manner
{
    unlock,
    destroy,
    replace,
    asynchronously,
    by_token,
};

/**
 * @brief One mutex, two contexts, any number of attempts, and the model that predicts
 *        their fates.
 *
 * Everything runs on the thread of the test. Each function does the same to the mutex as to the
 * model; check() compares them.
 */
template <class Mutex>
class mutex_world
{
public:
    using id = mutex_model::id;
    static constexpr int contexts = 2;

    /// @param early_strands whether the strand of a context is its
    ///                      oldest service.
    explicit mutex_world(bool early_strands = true)
        : early_strands_(early_strands)
    {
        for (int c = 0; c < contexts; ++c)
            create_context(c);
        mutex_ = std::make_unique<Mutex>(contexts_[0]->context.get_executor());
    }

    mutex_world(const mutex_world&) = delete;
    mutex_world& operator=(const mutex_world&) = delete;

    ~mutex_world()
    {
        for (auto& each : contexts_)
            each.reset();
        own_context_.restart();
        own_context_.poll();
        // No handler is left.
        BOOST_TEST(life_.use_count() == 1);
    }

    /// @pre The mutex exists, or a coroutine makes the attempt.
    id start(const attempt_plan& how)
    {
        const id who = model_.add(how.context);
        records_.push_back(std::make_unique<record>(how));
        story_ << "\nstart " << who << how;
        if (how.coroutine)
            spawn(who);
        else
            call(who);
        return who;
    }

    /// Tries the lock without an operation. Returns the attempt if it succeeded.
    std::optional<id> try_now()
    {
        const id who = model_.add(0);
        records_.push_back(std::make_unique<record>(attempt_plan{}));
        story_ << "\ntry_now " << who;
        model_.arrive(who, false);
        took(who, mutex_->try_lock());
        if (!holds(who))
            return {};
        return who;
    }

    /// Emits the attempt's signal. The signal for a coroutine goes through its executor, hence
    /// the drain.
    void cancel(id who, boost::asio::cancellation_type type)
    {
        const record& r = *records_[who];
        story_ << "\ncancel " << who;
        records_[who]->signal.emit(type);
        if (r.how.coroutine)
            drain(r.how.context);
        model_.withdraw(who, fate::aborted);
    }

    /// Whether cancel() may be called for it. A coroutine that has not begun would miss the signal,
    /// and the slot of one on a strand would keep the strand beyond its context.
    [[nodiscard]] bool can_cancel(id who) const
    {
        const record& r = *records_[who];
        return !r.gone &&
               !(r.how.coroutine && (r.how.strand || model_.fate_of(who) == fate::unborn));
    }

    /// Whether the attempt has a guard or a token that can be released.
    [[nodiscard]] bool holds(id who) const
    {
        const record& r = *records_[who];
        return r.guard.owns_lock() || r.in_frame != nullptr || r.token;
    }

    void release(id who, manner how)
    {
        record& r = *records_[who];
        story_ << "\nrelease " << who << " manner " << static_cast<int>(how);
        model_.release(who);
        if (r.in_frame != nullptr)
            release_in_frame(r);
        else if (r.token)
            release_token(r, how);
        else
            release_guard(r, how);
    }

    /// Calls leave() with the number of the last grant, which no token holds at present.
    void leave_wrongly()
    {
        error_code error;
        mutex_->leave(owner_token(last_number_), error);
        BOOST_TEST(error == errc::not_owner);
    }

    /// Whether a delivered token holds the lock.
    [[nodiscard]] bool is_owned_by_token() const
    {
        for (id who = 0; who < records_.size(); ++who)
            if (model_.owns(who) && records_[who]->token)
                return true;
        return false;
    }

    /// Advances the clock, and runs the contexts.
    void advance(manual_clock::duration by)
    {
        story_ << "\nadvance " << by.count();
        manual_clock::advance(by);
        drain_all();
        for (id who = 0; who < records_.size(); ++who)
            if (records_[who]->deadline <= manual_clock::now())
                model_.withdraw(who, fate::timed_out);
    }

    /// Runs one handler if one is ready.
    void step(int c)
    {
        story_ << "\nstep " << c;
        polling_ = true;
        contexts_[c]->context.restart();
        contexts_[c]->context.poll_one();
        polling_ = false;
    }

    /// Runs all handlers of a context.
    void drain(int c)
    {
        story_ << "\ndrain " << c;
        polling_ = true;
        do
            contexts_[c]->context.restart();
        while (contexts_[c]->context.poll() != 0);
        polling_ = false;
    }

    void drain_all()
    {
        for (int c = 0; c < contexts; ++c)
            if (contexts_[c])
                drain(c);
        own_context_.restart();
        own_context_.poll();
    }

    void create_context(int c)
    {
        contexts_[c] = std::make_unique<host>();
        if (early_strands_)
            contexts_[c]->make_strand();
    }

    void destroy_context(int c)
    {
        story_ << "\ndestroy context " << c;
        for (id who = 0; who < records_.size(); ++who)
        {
            record& r = *records_[who];
            if (r.how.context != c)
                continue;
            r.gone = true;
            r.in_frame = nullptr;
        }
        model_.destroy_context(c);
        contexts_[c].reset();
    }

    void destroy_mutex()
    {
        story_ << "\ndestroy mutex";
        model_.destroy_mutex();
        mutex_.reset();
    }

    /// The actions and results so far, for debugging.
    [[nodiscard]] std::string story() const { return story_.str(); }

    [[nodiscard]] bool has_context(int c) const { return contexts_[c] != nullptr; }
    [[nodiscard]] Mutex* mutex() const { return mutex_.get(); }
    [[nodiscard]] const mutex_model& model() const { return model_; }
    [[nodiscard]] std::size_t attempts() const { return records_.size(); }

    /// Compares the results so far with the model.
    void check() const
    {
        if (mutex_ && mutex_->is_locked() != model_.locked())
            BOOST_ERROR("the lock is " << (model_.locked() ? "free" : "held"));
        for (id who = 0; who < records_.size(); ++who)
        {
            const std::vector<fate>& completions = records_[who]->completions;
            if (completions.size() > 1)
                BOOST_ERROR("attempt " << who << " completed twice");
            if (!completions.empty() && completions.front() != model_.fate_of(who))
                BOOST_ERROR("attempt " << who << " completed with " << completions.front()
                                       << ", not " << model_.fate_of(who));
        }
    }

    /// The same after all contexts have run: every decision has been delivered.
    void check_settled() const
    {
        check();
        for (id who = 0; who < records_.size(); ++who)
        {
            const fate f = model_.fate_of(who);
            const bool is_complete = !records_[who]->completions.empty();
            if (!records_[who]->gone && is_complete == (f == fate::waiting))
                BOOST_ERROR("attempt " << who << " is " << f << ", and has "
                                       << (is_complete ? "completed" : "not completed"));
        }
    }

private:
    using guard_type = typename Mutex::guard_type;

    struct host
    {
        boost::asio::io_context context;
        std::optional<boost::asio::strand<boost::asio::io_context::executor_type>> strand;

        auto& make_strand()
        {
            if (!strand)
                strand.emplace(context.get_executor());
            return *strand;
        }
    };

    struct record
    {
        explicit record(const attempt_plan& plan)
            : how(plan)
        {
        }

        attempt_plan how;
        boost::asio::cancellation_signal signal;
        guard_type guard;
        owner_token token;
        /// The guard and the timer of a coroutine that keeps its guard.
        guard_type* in_frame = nullptr;
        manual_timer* hold = nullptr;
        manual_clock::time_point deadline = manual_clock::time_point::max();
        std::vector<fate> completions;
        /// Whether its context has been destroyed.
        bool gone = false;
    };

    boost::asio::any_io_executor executor_of(const attempt_plan& how)
    {
        host& h = *contexts_[how.context];
        if (how.strand)
            return h.make_strand();
        return h.context.get_executor();
    }

    void arrive(id who)
    {
        record& r = *records_[who];
        if (r.how.what == attempt_plan::request::timed)
            r.deadline = manual_clock::now() + r.how.time_limit;
        story_ << " arrived " << who;
        model_.arrive(who, r.how.what != attempt_plan::request::try_once);
    }

    void call(id who)
    {
        arrive(who);
        record& r = *records_[who];
        switch (r.how.what)
        {
        case attempt_plan::request::lock:
            return mutex_->async_lock(handler<guard_type>(who));
        case attempt_plan::request::timed:
            return mutex_->async_try_lock_until(r.deadline,
                                                handler<std::optional<guard_type>>(who));
        case attempt_plan::request::enter:
            return mutex_->async_enter(handler<owner_token>(who));
        case attempt_plan::request::try_once:
            return mutex_->async_try_lock(handler<std::optional<guard_type>>(who));
        }
    }

    template <class Result>
    auto handler(id who)
    {
        return boost::asio::bind_executor(
            executor_of(records_[who]->how),
            boost::asio::bind_cancellation_slot(
                records_[who]->signal.slot(),
                [this, who, life = life_](error_code error, Result got)
                {
                    // Never inside a call of the driver.
                    BOOST_TEST(polling_);
                    took(who, std::move(got), error);
                }));
    }

    void spawn(id who)
    {
        const auto executor = executor_of(records_[who]->how);
        if (!records_[who]->how.strand)
            boost::asio::co_spawn(
                executor, attempt(who, life_),
                boost::asio::bind_cancellation_slot(records_[who]->signal.slot(), rethrow));
        else
            boost::asio::co_spawn(executor, attempt(who, life_), rethrow);
    }

    static void rethrow(const std::exception_ptr& error)
    {
        if (error)
            std::rethrow_exception(error);
    }

    boost::asio::awaitable<void> attempt(id who, std::shared_ptr<int> /*life*/)
    {
        co_await boost::asio::this_coro::reset_cancellation_state(
            boost::asio::enable_total_cancellation());
        // A late signal must not end the coroutine.
        co_await boost::asio::this_coro::throw_if_cancelled(false);
        arrive(who);
        if (!mutex_)
        {
            took(who, guard_type(), boost::asio::error::operation_aborted);
            co_return;
        }
        const record& r = *records_[who];
        guard_type contribution_renewed;
        try
        {
            switch (r.how.what)
            {
            case attempt_plan::request::lock:
                took(who, co_await mutex_->async_lock(), {}, contribution_renewed);
                break;
            case attempt_plan::request::timed:
                took(who, co_await mutex_->async_try_lock_until(r.deadline), {},
                     contribution_renewed);
                break;
            case attempt_plan::request::enter:
                took(who, co_await mutex_->async_enter());
                break;
            case attempt_plan::request::try_once:
                took(who, co_await mutex_->async_try_lock(), {}, contribution_renewed);
                break;
            }
        }
        catch (const system_error& failure)
        {
            took(who, guard_type(), failure.code());
        }
        if (contribution_renewed)
            co_await stay(who, contribution_renewed);
    }

    boost::asio::awaitable<void> stay(id who, guard_type& contribution_renewed)
    {
        record& r = *records_[who];
        manual_timer timer(co_await boost::asio::this_coro::executor,
                           manual_clock::time_point::max());
        r.in_frame = &contribution_renewed;
        r.hold = &timer;
        co_await timer.async_wait(boost::asio::as_tuple(boost::asio::deferred));
        if (r.in_frame == nullptr)
            co_return;
        r.in_frame = nullptr;
        model_.release(who);
        contribution_renewed.unlock();
    }

    // Results.

    void took(id who, guard_type guard, error_code error, guard_type& contribution_renewed)
    {
        const std::uint64_t number = guard.fencing_token();
        record& r = *records_[who];
        (r.how.stays ? contribution_renewed : r.guard) = std::move(guard);
        on_completion(who, error, number, r.how.stays);
    }

    void took(id who, guard_type guard, error_code error = {})
    {
        took(who, std::move(guard), error, records_[who]->guard);
    }

    void took(id who, std::optional<guard_type> guard, error_code error,
              guard_type& contribution_renewed)
    {
        took(who, guard ? std::move(*guard) : guard_type(), error, contribution_renewed);
    }

    void took(id who, std::optional<guard_type> guard, error_code error = {})
    {
        took(who, guard ? std::move(*guard) : guard_type(), error);
    }

    void took(id who, owner_token token, error_code error = {})
    {
        records_[who]->token = token;
        on_completion(who, error, token.value(), false);
    }

    void on_completion(id who, error_code error, std::uint64_t number, bool stays)
    {
        if (error)
            BOOST_TEST(error == boost::asio::error::operation_aborted);
        if (number != 0)
        {
            BOOST_TEST(number > last_number_);
            last_number_ = number;
        }
        records_[who]->completions.push_back(error         ? fate::aborted
                                             : number != 0 ? fate::granted
                                                           : fate::timed_out);
        story_ << " completed " << who << ' ' << records_[who]->completions.back();
        model_.on_completion(who, stays);
    }

    // Releases.

    static void release_in_frame(record& r)
    {
        std::exchange(r.in_frame, nullptr)->unlock();
        r.hold->cancel();
    }

    void release_token(record& r, manner how)
    {
        const owner_token token = std::exchange(r.token, owner_token());
        if (!mutex_)
            return;
        if (how == manner::asynchronously)
            mutex_->async_leave(token, done());
        else if (how == manner::destroy)
            static_cast<void>(guard_type(*mutex_, token, adopt_lock));
        else
            mutex_->leave(token);
    }

    void release_guard(record& r, manner how)
    {
        switch (how)
        {
        case manner::unlock:
            return r.guard.unlock();
        case manner::destroy:
        {
            const guard_type last(std::move(r.guard));
            return;
        }
        case manner::replace:
            r.guard = guard_type();
            return;
        case manner::asynchronously:
            return r.guard.async_unlock(done());
        case manner::by_token:
        {
            const owner_token token = r.guard.release();
            BOOST_TEST(static_cast<bool>(token) == static_cast<bool>(mutex_));
            if (mutex_)
                mutex_->leave(token);
            return;
        }
        }
    }

    /// Runs on an existing context, or nowhere.
    auto done()
    {
        boost::asio::any_io_executor executor = own_context_.get_executor();
        return boost::asio::bind_executor(executor,
                                          [life = life_](error_code error) { BOOST_TEST(!error); });
    }

    bool early_strands_;
    bool polling_ = false;
    std::ostringstream story_;
    std::shared_ptr<int> life_ = std::make_shared<int>();
    mutex_model model_;
    std::uint64_t last_number_ = 0;
    std::vector<std::unique_ptr<record>> records_;
    std::unique_ptr<Mutex> mutex_;
    boost::asio::io_context own_context_;
    std::array<std::unique_ptr<host>, contexts> contexts_;
};

}  // namespace turnstile::test

#endif
