// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_CONDITION_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_CONDITION_WORLD_HPP

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <support/attempt.hpp>
#include <support/condition_model.hpp>
#include <support/manual_clock.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile::test {

/// The next task of an agent.
struct errand
{
    enum class kind
    {
        lock,
        wait,
        wait_timed,
        wait_predicate,
        wait_timed_predicate,
    };

    [[nodiscard]] bool has_predicate() const
    {
        return what == kind::wait_predicate || what == kind::wait_timed_predicate;
    }

    [[nodiscard]] bool is_timed() const
    {
        return what == kind::wait_timed || what == kind::wait_timed_predicate;
    }

    kind what = kind::lock;
    path how = path::handler;
    /// Runs on the context's strand, otherwise on the context itself.
    bool strand = false;
    std::size_t context = 0;
    std::size_t condition = 0;
    /// The predicate holds when condition_world::level() is at least this.
    unsigned level = 0;
    /// The time limit of a timed wait; at least 1.
    manual_clock::duration time_limit{1};
};

/**
 * @brief One mutex with conditions, two contexts, some agents, and the model that predicts
 *        their fates.
 *
 * Everything runs on the thread of the test. Each function does the same to the mutex and its
 * conditions as to the model; check() compares them.
 */
template <class Mutex>
class condition_world
{
public:
    using id = condition_model::id;
    using guard_type = typename Mutex::guard_type;
    static constexpr std::size_t contexts = 2;
    static constexpr std::size_t conditions = condition_model::conditions;

    explicit condition_world(std::size_t agents)
        : model_(agents)
        , agents_(agents)
    {
        for (std::size_t c = 0; c < contexts; ++c)
            create_context(c);
        mutex_ = std::make_unique<Mutex>(contexts_[0]->context);
        for (auto& each : conditions_)
            each = std::make_unique<condition<Mutex>>(*mutex_);
    }

    condition_world(const condition_world&) = delete;
    condition_world& operator=(const condition_world&) = delete;

    ~condition_world()
    {
        for (auto& each : contexts_)
            each.reset();
        for (const auto& each : operations_)
            BOOST_TEST(each->state() != "waiting");
    }

    // Agents.

    [[nodiscard]] std::size_t agents() const { return agents_.size(); }
    [[nodiscard]] bool is_busy(id who) const { return agents_[who].running != nullptr; }
    [[nodiscard]] bool has_guard(id who) const { return agents_[who].guard.owns_lock(); }

    /// @pre The agent is idle, and holds a guard unless it requests one. The objects that the errand
    /// uses exist, unless the agent is a coroutine.
    void start(id who, const errand& what)
    {
        operations_.push_back(std::make_unique<operation>(who, what));
        operation& o = *operations_.back();
        agents_[who].running = &o;
        switch (what.what)
        {
        case errand::kind::lock:
            return launch_as<guard_type>(o, [this, &o] { return lock(o); });
        case errand::kind::wait:
            return launch_as<void>(o, [this, &o] { return wait(o); });
        case errand::kind::wait_timed:
            return launch_as<std::cv_status>(o, [this, &o] { return wait_timed(o); });
        case errand::kind::wait_predicate:
            return launch_as<void>(o, [this, &o] { return wait_predicate(o); });
        case errand::kind::wait_timed_predicate:
            return launch_as<bool>(o, [this, &o] { return wait_timed_predicate(o); });
        }
    }

    /// Tries to acquire the lock without an operation.
    void try_lock(id who)
    {
        auto taken = mutex_->try_lock();
        if (taken.has_value() != model_.try_lock(who))
            BOOST_ERROR("trying to lock");
        if (taken)
            agents_[who].guard = std::move(*taken);
    }

    void unlock(id who)
    {
        model_.unlock(who);
        agents_[who].guard = guard_type();
    }

    /// Cancels the operation of an agent: directly if @p now, otherwise on its context. The signal
    /// of a coroutine has to be emitted there.
    void cancel(id who, boost::asio::cancellation_type type, bool now)
    {
        operation* const o = agents_[who].running;
        if (o == nullptr || !o->is_cancellable())
            return;
        const auto emit = [this, o, type]
        {
            if (o->is_complete() || !o->arrived)
                return;
            o->cancelled = true;
            o->cancel(type);
            model_.withdraw(o->who, "aborted");
        };
        if (now && o->plan.how == path::handler)
            emit();
        else
            boost::asio::post(contexts_[o->plan.context]->context, emit);
    }

    void notify(std::size_t c, bool all, bool asynchronously)
    {
        condition<Mutex>& it = *conditions_[c];
        model_.notify(c, all);
        if (asynchronously)
            all ? it.async_notify_all(ignore()) : it.async_notify_one(ignore());
        else
            all ? it.notify_all() : it.notify_one();
    }

    /// The value that the predicates test.
    [[nodiscard]] unsigned level() const { return level_; }
    void set_level(unsigned level) { level_ = level; }

    /// Advances the clock to the first deadline. Returns whether there was one to reach.
    bool advance()
    {
        drain_all();
        operation* first = nullptr;
        for (const agent& each : agents_)
            if (operation* o = each.running; o != nullptr && o->deadline &&
                                             (first == nullptr || *o->deadline < *first->deadline))
                first = o;
        // An operation with a predicate may wait again. It would then find its deadline passed, and
        // time out by itself.
        if (first == nullptr || (first->plan.has_predicate() && !model_.is_asleep(first->who)))
            return false;
        manual_clock::advance(*first->deadline - manual_clock::now());
        first->deadline.reset();
        const id who = first->who;
        // No other handler is ready, so the next one is the timer.
        contexts_[first->plan.context]->context.restart();
        contexts_[first->plan.context]->context.poll_one();
        if (model_.is_asleep(who))
            model_.withdraw(who, "timed out");
        collect();
        return true;
    }

    // Destruction.

    void destroy_condition(std::size_t c)
    {
        model_.destroy_condition(c);
        conditions_[c].reset();
    }

    void destroy_mutex()
    {
        const auto owner = model_.owner();
        model_.destroy_mutex(owner && has_guard(*owner) ? owner : std::nullopt);
        mutex_.reset();
    }

    void create_context(std::size_t c) { contexts_[c] = std::make_unique<host>(); }

    void destroy_context(std::size_t c)
    {
        std::vector<id> gone;
        for (id who = 0; who < agents_.size(); ++who)
        {
            operation* const o = agents_[who].running;
            if (o == nullptr || o->plan.context != c)
                continue;
            agents_[who].running = nullptr;
            o->gone = true;
            // An agent with a guard keeps the lock.
            if (!has_guard(who))
                gone.push_back(who);
        }
        model_.vanish(gone);
        contexts_[c].reset();
    }

    [[nodiscard]] Mutex* mutex() const { return mutex_.get(); }
    [[nodiscard]] bool has_condition(std::size_t c) const { return conditions_[c] != nullptr; }

    // Time.

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
            {
                each->context.restart();
                handlers += each->context.poll();
            }
        }
        collect();
    }

    /// Compares with the model. @p settled says that all contexts have run.
    void check(bool settled = false) const
    {
        if (mutex_ && mutex_->is_locked() != model_.owner().has_value())
            BOOST_ERROR("the lock is " << (mutex_->is_locked() ? "held" : "free"));
        if (!model_.is_conserved())
            BOOST_ERROR("the model loses notifications");
        if (model_.received() != received_)
            BOOST_ERROR(received_ << " signals were received, not " << model_.received());
        for (id who = 0; who < agents_.size(); ++who)
        {
            const operation* o = agents_[who].running;
            const bool waits = model_.is_asleep(who) || model_.is_queued(who);
            if (settled && o != nullptr && !waits)
                BOOST_ERROR("agent " << who << " has not completed, but is " << fate_of(*o));
        }
        for (const auto& each : operations_)
            if (each->gone && each->state() != "dropped")
                BOOST_ERROR("an operation of a dead context is " << each->state());
    }

private:
    struct host
    {
        boost::asio::io_context context;
        // Its service is older than the library's, and so is shut down later.
        boost::asio::strand<boost::asio::io_context::executor_type> strand{context.get_executor()};
    };

    struct operation
    {
        operation(id agent, const errand& what)
            : who(agent)
            , plan(what)
        {
        }

        template <class F>
        auto visit(F f) const
        {
            return std::visit(f, it);
        }

        /// Like attempt::state(), but also "timed out" if the result means that.
        [[nodiscard]] std::string state() const
        {
            std::string s = visit([](const auto& a) { return a.state(); });
            if (const auto* timed = std::get_if<attempt<std::cv_status>>(&it);
                timed != nullptr && s == "done" && timed->value() == std::cv_status::timeout)
                s = "timed out";
            if (const auto* predicate = std::get_if<attempt<bool>>(&it);
                predicate != nullptr && s == "done" && !predicate->value())
                s = "timed out";
            return s;
        }

        [[nodiscard]] bool is_complete() const
        {
            return visit([](const auto& a) { return a.is_complete(); });
        }

        void cancel(boost::asio::cancellation_type type)
        {
            std::visit([type](auto& a) { a.cancel(type); }, it);
        }

        /// The slot of a coroutine keeps its executor, and a strand must not outlive its context.
        [[nodiscard]] bool is_cancellable() const
        {
            return plan.how == path::handler || !plan.strand;
        }

        id who;
        errand plan;
        std::variant<attempt<>, attempt<std::cv_status>, attempt<bool>, attempt<guard_type>> it;
        std::optional<manual_clock::time_point> deadline;
        /// The result of the last evaluation of the predicate.
        std::string fate;
        bool arrived = false;
        bool asked = false;
        bool cancelled = false;
        bool gone = false;
    };

    struct agent
    {
        guard_type guard;
        operation* running = nullptr;
    };

    struct predicate
    {
        bool operator()() const { return world->evaluate(*o); }

        condition_world* world;
        operation* o;
    };

    // Errands.

    template <class T, class Make>
    void launch_as(operation& o, Make make)
    {
        auto& a = o.it.template emplace<attempt<T>>();
        launch(o.plan.how, executor_of(o.plan), a, make, o.is_cancellable());
    }

    auto lock(operation& o)
    {
        o.arrived = true;
        model_.want_lock(o.who);
        if (!mutex_)
            throw system_error(boost::asio::error::operation_aborted);
        return mutex_->async_lock();
    }

    auto wait(operation& o)
    {
        condition<Mutex>& c = arrive(o);
        model_.sleep(o.who, o.plan.condition);
        return c.async_wait(agents_[o.who].guard);
    }

    auto wait_timed(operation& o)
    {
        condition<Mutex>& c = arrive(o);
        model_.sleep(o.who, o.plan.condition);
        return c.async_wait_until(agents_[o.who].guard, new_deadline(o));
    }

    auto wait_predicate(operation& o)
    {
        condition<Mutex>& c = arrive(o);
        return c.async_wait(agents_[o.who].guard, predicate{this, &o});
    }

    auto wait_timed_predicate(operation& o)
    {
        condition<Mutex>& c = arrive(o);
        return c.async_wait_until(agents_[o.who].guard, new_deadline(o), predicate{this, &o});
    }

    condition<Mutex>& arrive(operation& o)
    {
        o.arrived = true;
        if (conditions_[o.plan.condition])
            return *conditions_[o.plan.condition];
        o.fate = "aborted";
        throw system_error(boost::asio::error::operation_aborted);
    }

    manual_clock::time_point new_deadline(operation& o)
    {
        // All deadlines differ: the order of equal ones would depend on the reactor.
        auto deadline = manual_clock::now() + o.plan.time_limit;
        while (!deadlines_.insert(deadline).second)
            ++deadline;
        o.deadline = deadline;
        return deadline;
    }

    /// Evaluates the predicate, and updates the model with what the operation will do.
    bool evaluate(operation& o)
    {
        const bool holds = o.plan.level <= level_;
        if (!has_guard(o.who) || (mutex_ && model_.owner() != o.who))
            BOOST_ERROR("a predicate was evaluated without the lock");
        const bool woken = std::exchange(o.asked, true);
        const std::string reason = woken ? model_.fate_of(o.who) : std::string();
        if (woken)
        {
            received_ += reason == "done";
            model_.on_completion(o.who);
        }
        if (holds)
            o.fate = "done";
        else if (o.cancelled)
            o.fate = "aborted";
        else if (reason == "timed out")
            o.fate = reason;
        else
            model_.sleep(o.who, o.plan.condition);
        return holds;
    }

    boost::asio::any_io_executor executor_of(const errand& plan)
    {
        host& h = *contexts_[plan.context];
        if (plan.strand)
            return h.strand;
        return h.context.get_executor();
    }

    receiver<void> ignore()
    {
        ignored_.push_back(std::make_unique<attempt<>>());
        return {*ignored_.back(), own_context_.get_executor(), false};
    }

    // Results.

    [[nodiscard]] const std::string& fate_of(const operation& o) const
    {
        return o.fate.empty() ? model_.fate_of(o.who) : o.fate;
    }

    void collect()
    {
        for (id who = 0; who < agents_.size(); ++who)
            if (operation* o = agents_[who].running; o != nullptr && o->is_complete())
                collect(agents_[who], *o);
    }

    void collect(agent& a, operation& o)
    {
        a.running = nullptr;
        const std::string state = o.state();
        if (state != fate_of(o))
            BOOST_ERROR("agent " << o.who << " is " << state << ", not " << fate_of(o));
        if (auto* got = std::get_if<attempt<guard_type>>(&o.it))
            a.guard = std::move(got->value());
        else if (!o.plan.has_predicate() && state == "done")
            ++received_;
        model_.on_completion(o.who);
        if (mutex_ && a.guard.owns_lock() != (model_.owner() == o.who))
            BOOST_ERROR("agent " << o.who << " has " << (a.guard ? "a guard" : "no guard"));
        if (!mutex_ && state == "aborted" && o.fate.empty() && a.guard)
            BOOST_ERROR("a guard came back from a dead mutex");
    }

    condition_model model_;
    std::vector<agent> agents_;
    unsigned level_ = 0;
    std::size_t received_ = 0;
    std::set<manual_clock::time_point> deadlines_;
    std::vector<std::unique_ptr<operation>> operations_;
    std::vector<std::unique_ptr<attempt<>>> ignored_;
    std::unique_ptr<Mutex> mutex_;
    std::array<std::unique_ptr<condition<Mutex>>, conditions> conditions_;
    boost::asio::io_context own_context_;
    std::array<std::unique_ptr<host>, contexts> contexts_;
};

}  // namespace turnstile::test

#endif
