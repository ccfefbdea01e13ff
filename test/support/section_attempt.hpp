// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SECTION_ATTEMPT_HPP
#define TURNSTILE_TEST_SUPPORT_SECTION_ATTEMPT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <string>
#include <support/attempt.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::test {

/// The completion handler of an attempt at an operation that fails with an exception, such as with_lock().
/// The exception has to be a system_error.
template <class T>
class section_receiver
{
public:
    using executor_type = boost::asio::any_io_executor;
    using cancellation_slot_type = boost::asio::cancellation_slot;

    section_receiver(attempt<T>& to, executor_type executor, bool cancellable = true)
        : to_(&to)
        , base_(to, std::move(executor), cancellable)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return base_.get_executor(); }

    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept
    {
        return base_.get_cancellation_slot();
    }

    void operator()(const std::exception_ptr& failure)
    {
        if (failure)
            complete(failure);
        else
            base_(error_code());
    }

    template <class Result>
    void operator()(const std::exception_ptr& failure, Result result)
    {
        if (failure)
            complete(failure);
        else
            base_(error_code(), std::move(result));
    }

private:
    void complete(const std::exception_ptr& failure)
    {
        try
        {
            std::rethrow_exception(failure);
        }
        catch (const system_error& error)
        {
            to_->complete(error.code(), std::string(error.what()));
        }
    }

    attempt<T>* to_;
    receiver<T> base_;
};

/// Like start(), for an operation that fails with an exception.
template <class T, class Make>
void start_section(path how, const boost::asio::any_io_executor& executor, attempt<T>& a, Make make)
{
    if (how == path::handler)
        make()(section_receiver<T>(a, executor));
    else
        boost::asio::co_spawn(
            executor,
            attempt_in_coroutine(a, std::function<std::invoke_result_t<Make&>()>(make), a.begin()),
            rethrower{a.slot()});
}

/// The same on a context, all ready handlers of which run afterwards.
template <class T, class Make>
void start_section(path how, boost::asio::io_context& context, attempt<T>& a, Make make)
{
    start_section(how, boost::asio::any_io_executor(context.get_executor()), a, make);
    drain(context);
}

}  // namespace turnstile::test

#endif
