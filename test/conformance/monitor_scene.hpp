// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CONFORMANCE_MONITOR_SCENE_HPP
#define TURNSTILE_TEST_CONFORMANCE_MONITOR_SCENE_HPP

// Common parts of the conformance suites of monitors. Each of them needs a list of providers:
//
//   using monitor_providers = std::tuple<my_provider, ...>;
//   #include <conformance/monitor_suite.hpp>
//
// A provider meets the requirements of support/backend_test.hpp, and has:
//
//   monitor_type<T>           the tested type
//   make_monitor<T>(value)    returns a new monitor
//
// The state is described, because a remote backend needs that. The tests use only asynchronous operations, except that
// a body notifies synchronously on every backend.

#include <boost/describe/class.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <support/backend_test.hpp>
#include <support/print.hpp>
#include <turnstile/error.hpp>
#include <turnstile/transaction.hpp>
#include <utility>

namespace turnstile::test {

/// The state of the monitors.
struct account
{
    int balance = 0;
    std::string log{};
    std::uint8_t visitors = 0;
};

BOOST_DESCRIBE_STRUCT(account, (), (balance, log, visitors))

template <class Provider>
struct monitor_test : backend_test<Provider>
{
    using typename backend_test<Provider>::task;
    template <class T>
    using awaitable = typename backend_test<Provider>::template awaitable<T>;
    using monitor_type = typename Provider::template monitor_type<account>;
    using section = typename monitor_type::section;

    /// Waits until the balance is at least @p much, subtracts it, and records the name.
    auto take(int much, char name)
    {
        return [this, much, name]() -> task
        {
            auto body = [=, this](section& s) -> task
            {
                co_await s.async_wait(changed, [=](const account& a) { return a.balance >= much; });
                s->balance -= much;
                s->log += name;
            };
            try
            {
                co_await guarded.async_with(body);
                this->complete(name, {});
            }
            catch (const system_error& error)
            {
                this->complete(name, error.code());
            }
        };
    }

    /// Adds to the balance, and notifies.
    task give(int much, bool all)
    {
        co_await guarded.async_with(
            [&](section& s)
            {
                s->balance += much;
                if (all)
                    s.notify_all(changed);
                else
                    s.notify_one(changed);
            });
        co_await this->provider.settle();
    }

    /// A transaction with the same changes as take(), except the log.
    [[nodiscard]] auto taking(int much)
    {
        return transaction<account>()
            .require(&account::balance, std::greater_equal(), much)
            .wait_on(changed)
            .add(&account::balance, -much);
    }

    /// Executes a waiting transaction, and records the result.
    template <class Transaction>
    auto transact(Transaction what, char name)
    {
        return [this, what = std::move(what), name]() -> task
        {
            try
            {
                if (co_await guarded.async_transact(what))
                    this->complete(name, {});
            }
            catch (const system_error& error)
            {
                this->complete(name, error.code());
            }
        };
    }

    /// Executes a transaction with a condition of another monitor.
    template <class Transaction>
    task refuse(Transaction what)
    {
        try
        {
            co_await guarded.async_transact(std::move(what));
            BOOST_ERROR("the transaction was not refused");
        }
        catch (const system_error& error)
        {
            BOOST_TEST(error.code() == turnstile::errc::wrong_object);
        }
    }

    /// Writes the state, so that it exists.
    task prepare(int balance)
    {
        co_await guarded.async_with([balance](section& s) { s->balance = balance; });
    }

    awaitable<account> look()
    {
        const account now = co_await guarded.async_with([](section& s) { return *s; });
        co_return now;
    }

    monitor_type guarded = this->provider.template make_monitor<account>(account());
    typename monitor_type::condition_type changed = guarded.make_condition("changed");
    typename monitor_type::condition_type other = guarded.make_condition("other");
};

}  // namespace turnstile::test

#define TURNSTILE_MONITOR_TEST(name)                                                               \
    BOOST_AUTO_TEST_CASE_TEMPLATE(name, Provider, monitor_providers)

#endif
