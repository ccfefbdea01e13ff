// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests that the library does not call functions of the user that have the names of its own. Argument-dependent lookup
// finds them if a handler is of the user's namespace.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <stop_token>
#include <string>
#include <support/attempt.hpp>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/error.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/stop_token.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using turnstile::test::drain;

namespace users_own {

struct handler
{
    template <class... Results>
    void operator()(const error_code& error, const Results&...) const
    {
        *calls += error ? 0 : 1;
    }

    int* calls;
};

// None of these is defined.

template <class A, class B>
int start_operation(A&&, B&&);

template <class A, class B>
int start_request(A&&, B&&);

template <class A, class B, class C>
int start_call(A&&, B&&, C&&, const char*);

template <class A, class... B>
int call_immediately(A&, B...);

template <class A, class B, class C, class D>
int complete_immediately(const A&, const B&, C&&, const D&);

template <class A, class B>
int try_start_for_handler(A&, B&);

template <class A, class B, class C>
int with_result(A&, B&, C);

template <class A>
int serialized(A&&);

}  // namespace users_own

BOOST_AUTO_TEST_CASE(functions_in_the_namespace_of_a_handler_are_not_called)
{
    asio::io_context context;
    async_mutex first(context), second(context);
    async_semaphore semaphore(context, 1);
    job_queue<std::string> queue(context);
    std::stop_source source;
    int calls = 0;
    const users_own::handler handler{&calls};
    first.async_lock(handler);
    drain(context);
    auto guard = first.try_lock();
    first.async_lock(handler);
    guard->async_unlock(handler);
    drain(context);
    auto unit = semaphore.try_acquire();
    unit->async_release(handler);
    drain(context);
    async_lock_all(first, second, handler);
    drain(context);
    queue.async_push("a", handler);
    drain(context);
    queue.async_next(handler);
    drain(context);
    first.async_lock(bind_stop_token(source.get_token(), handler));
    drain(context);
    BOOST_TEST(calls == 8);
}
