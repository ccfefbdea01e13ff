// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SEMAPHORE_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_SEMAPHORE_WORLD_HPP

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <support/attempt.hpp>
#include <support/manual_clock.hpp>
#include <support/print.hpp>
#include <support/semaphore_model.hpp>
#include <turnstile/async_semaphore.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

/// How a request acquires units.
struct request_plan
{
    enum class kind
    {
        acquire,
        timed,
        try_once,
    };

    kind what = kind::acquire;
    path how = path::handler;
    /// The permit stays in the frame of the coroutine, otherwise in an object that outlives all contexts.
    bool stays = false;
    /// Runs on the context's strand, otherwise on the context itself.
    bool strand = false;
    std::size_t context = 0;
    std::ptrdiff_t units = 1;
    /// The time limit of a timed request; at least 1.
    manual_clock::duration time_limit{1};
};

/**
 * @brief One semaphore, two contexts, any number of requests, and the model that predicts
 *        their fates.
 *
 * Everything runs on the thread of the test. Each function does the same to the semaphore as to the model;
 * check() compares them.
 */
template <class Semaphore>
class semaphore_world
{
public:
    using id = semaphore_model::id;
    using permit_type = typename Semaphore::permit_type;
    static constexpr std::size_t contexts = 2;

    /// A permit, in a frame of a context or outside of all contexts.
    struct holding
    {
        permit_type own;
        permit_type* at;
        std::size_t context;
        std::ptrdiff_t units;
    };

    semaphore_world(std::ptrdiff_t available, std::ptrdiff_t capacity)
        : model_(available, capacity)
    {
        for (std::size_t c = 0; c < contexts; ++c)
            create_context(c);
        semaphore_ = std::make_unique<Semaphore>(contexts_[0]->context, available, capacity);
    }

    semaphore_world(const semaphore_world&) = delete;
    semaphore_world& operator=(const semaphore_world&) = delete;

    ~semaphore_world()
    {
        for (auto& each : contexts_)
            each.reset();
        for (const auto& each : requests_)
            BOOST_TEST(each->a.state() != "waiting");
    }

    // Requests.

    /// @pre The semaphore exists, or a coroutine makes the request.
    void start(const request_plan& how)
    {
        const id who = model_.add(how.context, how.units);
        requests_.push_back(std::make_unique<request>(how));
        if (how.stays && how.how == path::coroutine)
            boost::asio::co_spawn(executor_of(how), stay(who, requests_[who]->a.begin()),
                                  rethrower{slot_of(who)});
        else if (how.what == request_plan::kind::acquire)
            launch_it(who, [this, who] { return acquire(who); });
        else if (how.what == request_plan::kind::timed)
            launch_it(who, [this, who] { return acquire_until(who); });
        else
            launch_it(who, [this, who] { return try_acquire(who); });
    }

    /// Tries to acquire units without an operation.
    void try_now(std::ptrdiff_t units)
    {
        const id who = model_.add(0, units);
        requests_.push_back(std::make_unique<request>(request_plan{}));
        requests_[who]->gone = true;
        model_.arrive(who, false);
        model_.on_completion(who);
        std::string result = "timed out";
        try
        {
            if (auto taken = semaphore_->try_acquire(units))
            {
                keep(std::move(*taken));
                result = "done";
            }
        }
        catch (const system_error& error)
        {
            attempt<> failed;
            failed.complete(error.code());
            result = failed.state();
        }
        if (result != model_.fate_of(who))
            BOOST_ERROR("trying was " << result << ", not " << model_.fate_of(who));
    }

    /// Cancels a request: directly if @p now, otherwise on its context. The signal of a coroutine has to be
    /// emitted there.
    void cancel(id who, boost::asio::cancellation_type type, bool now)
    {
        const request& r = *requests_[who];
        if (r.gone || !is_cancellable(r.how))
            return;
        const auto emit = [this, who, type]
        {
            if (requests_[who]->a.is_complete())
                return;
            requests_[who]->a.cancel(type);
            model_.withdraw(who, "aborted");
        };
        if (now && r.how.how == path::handler)
            emit();
        else
            boost::asio::post(contexts_[r.how.context]->context, emit);
    }

    /// Advances the clock to the first deadline. Returns whether there was one.
    bool advance()
    {
        drain_all();
        request* first = nullptr;
        id who = 0;
        for (id i = 0; i < requests_.size(); ++i)
            if (request& r = *requests_[i]; !r.gone && !r.a.is_complete() && r.deadline &&
                                            (first == nullptr || *r.deadline < *first->deadline))
            {
                first = &r;
                who = i;
            }
        if (first == nullptr)
            return false;
        manual_clock::advance(*first->deadline - manual_clock::now());
        first->deadline.reset();
        // No other handler is ready, so the next one is the timer.
        step(first->how.context);
        model_.withdraw(who, "timed out");
        return true;
    }

    // Permits.

    [[nodiscard]] std::vector<std::unique_ptr<holding>>& holdings() { return holdings_; }

    void release(holding& h, int manner)
    {
        model_.put(std::exchange(h.units, 0));
        permit_type& p = *h.at;
        if (manner == 0)
            p.release();
        else if (manner == 1)
            p = permit_type();
        else if (manner == 2)
            const permit_type last(std::move(p));
        else
            p.async_release(new_release());
    }

    void forget(holding& h)
    {
        if (model_.alive())
            model_.forget(h.units);
        h.units = 0;
        h.at->forget();
    }

    void split(holding& h, std::ptrdiff_t units)
    {
        if (units < 1 || units > h.units)
        {
            BOOST_CHECK_THROW((void)h.at->split(units), system_error);
            return;
        }
        h.units -= units;
        keep(h.at->split(units));
    }

    void merge(holding& into, holding& from)
    {
        into.at->merge(std::move(*from.at));
        if (&into != &from)
            into.units += std::exchange(from.units, 0);
    }

    // The semaphore itself.

    /// Adds units, asynchronously or not. The model predicts whether that is an error.
    void release(std::ptrdiff_t units, bool asynchronously)
    {
        const bool possible = units >= 1 && model_.release(units);
        error_code error;
        if (asynchronously)
            semaphore_->async_release(units, new_release());
        else
            semaphore_->release(units, error);
        drain(own_context_);
        if (asynchronously)
            error = releases_.back()->error();
        if (static_cast<bool>(error) == possible)
            BOOST_ERROR("release of " << units << " units: " << error.message());
    }

    void set_capacity(std::ptrdiff_t capacity)
    {
        model_.set_capacity(capacity);
        semaphore_->set_capacity(capacity);
    }

    void close()
    {
        model_.close();
        semaphore_->close();
    }

    void destroy_semaphore()
    {
        model_.destroy_semaphore();
        semaphore_.reset();
    }

    // Contexts.

    /// Runs one handler if one is ready.
    void step(std::size_t c)
    {
        contexts_[c]->context.restart();
        contexts_[c]->context.poll_one();
        collect();
    }

    /// Runs all handlers, including those that become ready on another context meanwhile.
    void drain_all()
    {
        std::size_t handlers = 1;
        while (handlers != 0)
        {
            handlers = 0;
            for (auto& each : contexts_)
                if (each)
                {
                    each->context.restart();
                    handlers += each->context.poll();
                }
        }
        collect();
    }

    void create_context(std::size_t c) { contexts_[c] = std::make_unique<host>(); }

    void destroy_context(std::size_t c)
    {
        model_.destroy_context(c);
        for (auto& each : holdings_)
            if (each->context == c)
            {
                model_.put(std::exchange(each->units, 0));
                each->at = &each->own;
                each->context = nowhere;
            }
        for (auto& each : requests_)
            if (each->how.context == c)
                each->gone = true;
        contexts_[c].reset();
    }

    [[nodiscard]] bool has_context(std::size_t c) const { return contexts_[c] != nullptr; }
    [[nodiscard]] Semaphore* semaphore() const { return semaphore_.get(); }
    [[nodiscard]] const semaphore_model& model() const { return model_; }
    [[nodiscard]] std::size_t requests() const { return requests_.size(); }

    /// Compares the results so far with the model. @p settled says that all contexts have run.
    void check(bool settled = false) const
    {
        if (semaphore_)
            check_semaphore();
        for (id who = 0; who < requests_.size(); ++who)
            if (requests_[who]->a.state() != "idle")
                check_request(who, settled);
        for (const auto& each : holdings_)
            if (each->at->count() != each->units)
                BOOST_ERROR("a permit has " << each->at->count() << " units, not " << each->units);
    }

private:
    static constexpr std::size_t nowhere = contexts;

    struct host
    {
        boost::asio::io_context context;
        // Its service is older than the library's, and so is shut down later.
        boost::asio::strand<boost::asio::io_context::executor_type> strand{context.get_executor()};
    };

    struct request
    {
        explicit request(const request_plan& plan)
            : how(plan)
        {
        }

        request_plan how;
        attempt<permit_type> a;
        std::optional<manual_clock::time_point> deadline;
        bool collected = false;
        /// Whether its context has been destroyed.
        bool gone = false;
    };

    // Making requests.

    template <class Make>
    void launch_it(id who, Make make)
    {
        const request_plan& how = requests_[who]->how;
        launch(how.how, executor_of(how), requests_[who]->a, make, is_cancellable(how));
    }

    /// Tells the model that the request begins.
    const request_plan& arrive(id who, bool may_wait)
    {
        model_.arrive(who, may_wait);
        if (!semaphore_)
            throw system_error(boost::asio::error::operation_aborted);
        return requests_[who]->how;
    }

    auto acquire(id who)
    {
        const std::ptrdiff_t units = arrive(who, true).units;
        return semaphore_->async_acquire(units);
    }

    auto acquire_until(id who)
    {
        const request_plan& how = arrive(who, true);
        // All deadlines differ: the order of equal ones would depend on the reactor.
        auto deadline = manual_clock::now() + how.time_limit;
        while (!deadlines_.insert(deadline).second)
            ++deadline;
        requests_[who]->deadline = deadline;
        return semaphore_->async_try_acquire_until(how.units, deadline);
    }

    auto try_acquire(id who)
    {
        const std::ptrdiff_t units = arrive(who, false).units;
        return semaphore_->async_try_acquire(units);
    }

    /// A coroutine that keeps its permit as long as its context exists.
    boost::asio::awaitable<void> stay(id who, std::shared_ptr<int> /*life*/)
    {
        co_await boost::asio::this_coro::reset_cancellation_state(
            boost::asio::enable_total_cancellation());
        permit_type contribution_renewed;
        try
        {
            contribution_renewed = co_await acquire(who);
        }
        catch (const system_error& error)
        {
            requests_[who]->a.complete(error.code());
            co_return;
        }
        request& r = *requests_[who];
        r.a.complete({});
        r.collected = true;
        model_.on_completion(who);
        holdings_.push_back(std::make_unique<holding>());
        *holdings_.back() = {
            {}, &contribution_renewed, r.how.context, contribution_renewed.count()};
        // A signal that came too late for the request must not cancel the rest of the coroutine.
        co_await boost::asio::this_coro::throw_if_cancelled(false);
        co_await boost::asio::this_coro::reset_cancellation_state(
            boost::asio::disable_cancellation());
        manual_timer timer(co_await boost::asio::this_coro::executor,
                           manual_clock::time_point::max());
        co_await timer.async_wait(boost::asio::as_tuple(boost::asio::deferred));
    }

    /// The slot of a coroutine keeps its executor, and a strand must not outlive its context.
    static bool is_cancellable(const request_plan& how)
    {
        return how.how == path::handler || !how.strand;
    }

    boost::asio::cancellation_slot slot_of(id who)
    {
        request& r = *requests_[who];
        return is_cancellable(r.how) ? r.a.slot() : boost::asio::cancellation_slot();
    }

    boost::asio::any_io_executor executor_of(const request_plan& how)
    {
        if (how.strand)
            return contexts_[how.context]->strand;
        return contexts_[how.context]->context.get_executor();
    }

    // Results.

    receiver<void> new_release()
    {
        releases_.push_back(std::make_unique<attempt<>>());
        return {*releases_.back(), own_context_.get_executor(), false};
    }

    void keep(permit_type p)
    {
        const std::ptrdiff_t units = p.count();
        holdings_.push_back(std::make_unique<holding>());
        *holdings_.back() = {std::move(p), nullptr, nowhere, units};
        holdings_.back()->at = &holdings_.back()->own;
    }

    /// Passes the results to the model, and takes over the permits.
    void collect()
    {
        for (id who = 0; who < requests_.size(); ++who)
        {
            request& r = *requests_[who];
            if (r.collected || !r.a.is_complete())
                continue;
            r.collected = true;
            model_.on_completion(who);
            if (r.a.value())
                keep(std::move(r.a.value()));
        }
    }

    void check_semaphore() const
    {
        if (semaphore_->available() != model_.available())
            BOOST_ERROR(semaphore_->available()
                        << " units are available, not " << model_.available());
        if (semaphore_->capacity() != model_.capacity())
            BOOST_ERROR("the capacity is wrong");
        if (semaphore_->is_closed() != model_.is_closed())
            BOOST_ERROR("closed or not");
    }

    void check_request(id who, bool settled) const
    {
        const std::string state = requests_[who]->a.state();
        std::string fate = model_.fate_of(who);
        if (fate == "idle")
            fate = "waiting";
        if (state != fate && (settled || state != "waiting" || fate == "dropped"))
            BOOST_ERROR("request " << who << " of " << model_.units_of(who) << " units is " << state
                                   << ", not " << fate);
    }

    semaphore_model model_;
    std::set<manual_clock::time_point> deadlines_;
    std::vector<std::unique_ptr<request>> requests_;
    std::vector<std::unique_ptr<attempt<>>> releases_;
    std::vector<std::unique_ptr<holding>> holdings_;
    std::unique_ptr<Semaphore> semaphore_;
    boost::asio::io_context own_context_;
    std::array<std::unique_ptr<host>, contexts> contexts_;
};

}  // namespace turnstile::test

#endif
