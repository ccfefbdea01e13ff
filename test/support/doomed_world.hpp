// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_DOOMED_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_DOOMED_WORLD_HPP

#include <algorithm>
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <type_traits>
#include <utility>
#include <vector>

// Destroys all objects in every order.

namespace turnstile::test {

/// How an operation waits.
struct manner_of_waiting
{
    enum class executor
    {
        plain,
        /// A strand whose service is older than all others of its context.
        early_strand,
        /// A strand whose service is younger.
        late_strand,
    };

    path how = path::handler;
    executor on = executor::plain;

    /// Whether a signal may outlive the context.
    [[nodiscard]] bool is_cancellable() const
    {
        return how == path::handler || on == executor::plain;
    }
};

/**
 * @brief Two contexts, an object, another object that belongs to it, and any number
 *        of attempts.
 *
 * @tparam Object is constructed with the executor of the first context.
 */
template <class Object>
class doomed_world
{
public:
    explicit doomed_world(const manner_of_waiting& how)
        : how_(how)
    {
        for (host& each : hosts_)
        {
            each.context.emplace();
            if (how.on == manner_of_waiting::executor::early_strand)
                each.strand.emplace(each.context->get_executor());
        }
    }

    doomed_world(const doomed_world&) = delete;
    doomed_world& operator=(const doomed_world&) = delete;

    ~doomed_world()
    {
        for (host& each : hosts_)
            each.destroy();
    }

    [[nodiscard]] const manner_of_waiting& how() const { return how_; }
    [[nodiscard]] boost::asio::io_context& context(int c) { return *hosts_[c].context; }
    [[nodiscard]] bool has_context(int c) const { return hosts_[c].context.has_value(); }

    /// The executor of the operations of a context.
    [[nodiscard]] boost::asio::any_io_executor executor(int c)
    {
        host& h = hosts_[c];
        if (how_.on == manner_of_waiting::executor::plain)
            return h.context->get_executor();
        if (!h.strand)
            h.strand.emplace(h.context->get_executor());
        return *h.strand;
    }

    /// Starts the operation that @p make returns. A coroutine starts when its context runs.
    template <class T = void, class Make>
    attempt<T>& start(int c, Make make)
    {
        attempt<T>& a = add<T>(c);
        launch(how_.how, executor(c), a, std::function<std::invoke_result_t<Make&>()>(make),
               how_.is_cancellable());
        return a;
    }

    /// Adds an attempt that the caller starts. If it does not end, it outlives its object: it waits
    /// until its context is destroyed.
    template <class T = void>
    attempt<T>& add(int c, bool ends = true)
    {
        const auto a = std::make_shared<attempt<T>>();
        attempts_.push_back({c, ends, [a] { return a->state(); },
                             [a] { a->value() = typename attempt<T>::value_type(); }});
        return *a;
    }

    /// Keeps a guard until destroy_guards().
    template <class Guard>
    void keep(Guard guard)
    {
        kept_.push_back(std::make_shared<Guard>(std::move(guard)));
    }

    void drain_all()
    {
        for (host& each : hosts_)
            if (each.context)
                drain(*each.context);
    }

    /// Runs one handler.
    void step(int c)
    {
        context(c).restart();
        context(c).poll_one();
    }

    void destroy_context(int c)
    {
        hosts_[c].destroy();
        check_those_of(c);
    }

    /// Destroys the kept guards, and those that attempts received.
    void destroy_guards()
    {
        kept_.clear();
        for (record& each : attempts_)
            each.forget();
    }

    void destroy_object() { object.reset(); }

    /// Checks that each attempt has completed at most once.
    void check() const
    {
        for (const record& each : attempts_)
            if (each.state() == "completed twice")
                BOOST_ERROR("an operation completed twice");
    }

    /// Checks that no attempt waits, when all contexts have run and the object is destroyed.
    void check_settled() const
    {
        if (object)
            return;
        for (const record& each : attempts_)
            if (each.ends && each.state() == "waiting")
                BOOST_ERROR("somebody waits for what is gone");
    }

    std::unique_ptr<Object> object;

private:
    struct host
    {
        std::optional<boost::asio::io_context> context;
        std::optional<boost::asio::strand<boost::asio::io_context::executor_type>> strand;

        void destroy()
        {
            strand.reset();
            context.reset();
        }
    };

    struct record
    {
        int context;
        bool ends;
        std::function<std::string()> state;
        std::function<void()> forget;
    };

    /// Checks that each attempt of a destroyed context has completed or was dropped.
    void check_those_of(int c) const
    {
        for (const record& each : attempts_)
            if (each.context == c && each.state() == "waiting")
                BOOST_ERROR("somebody waits in a context that is gone");
    }

    manner_of_waiting how_;
    std::vector<record> attempts_;
    std::vector<std::shared_ptr<void>> kept_;
    std::array<host, 2> hosts_;
};

/**
 * @brief Creates a state and destroys everything, in each order and for each way to wait.
 *
 * The remaining contexts run after each step, or only after the last one.
 *
 * @param state is called with a world without an object.
 * @param other is one more step of each order: for instance, it destroys the guards, or
 *              changes the object.
 */
template <class Object, class State, class Other>
void destroy_in_every_order(State state, Other other)
{
    using executor = manner_of_waiting::executor;
    using world = doomed_world<Object>;
    const auto destroy = [&](world& w, int victim)
    {
        switch (victim)
        {
        case 0:
        case 1:
            return w.destroy_context(victim);
        case 2:
            return w.destroy_object();
        default:
            return other(w);
        }
    };
    for (const path how : {path::handler, path::coroutine})
        for (const executor on : {executor::plain, executor::early_strand, executor::late_strand})
            for (const bool run_between : {false, true})
            {
                std::array order{0, 1, 2, 3};
                do
                {
                    world w({how, on});
                    state(w);
                    for (const int victim : order)
                    {
                        destroy(w, victim);
                        w.check();
                        if (!run_between)
                            continue;
                        w.drain_all();
                        w.check();
                        w.check_settled();
                    }
                } while (std::ranges::next_permutation(order).found);
            }
}

}  // namespace turnstile::test

#endif
