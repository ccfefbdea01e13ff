// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_SECTION_HPP
#define TURNSTILE_DETAIL_SECTION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/throw_exception.hpp>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <turnstile/detail/clear_slot.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/executor_initiation.hpp>
#include <turnstile/detail/rerouted_handler.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <type_traits>
#include <utility>

// The common part of with_lock, with_permit and monitor: a body that runs while a guard or permit,
// its *ownership*, is held.
//
// The initiating function starts the operation that acquires the ownership, so the object need
// exist only then. The body then runs on the handler's executor: directly if it is a plain
// function, in a coroutine of its own if it returns an awaitable.

namespace turnstile::detail {

/// The result of a body, and the executor of the coroutine that runs it.
template <class T>
struct awaitable_traits
{
    static constexpr bool is_awaitable = false;
    using value_type = T;
    using executor_type = boost::asio::any_io_executor;
};

template <class T, class Executor>
struct awaitable_traits<boost::asio::awaitable<T, Executor>>
{
    static constexpr bool is_awaitable = true;
    using value_type = T;
    using executor_type = Executor;
};

template <class Body, class Ownership>
using section_traits = awaitable_traits<std::invoke_result_t<Body&, Ownership&>>;

template <class Body, class Ownership>
using section_result_t = typename section_traits<Body, Ownership>::value_type;

template <class T>
struct section_signature
{
    using type = void(std::exception_ptr, T);
};

template <>
struct section_signature<void>
{
    using type = void(std::exception_ptr);
};

template <class Body, class Ownership>
using section_signature_t = typename section_signature<section_result_t<Body, Ownership>>::type;

/// A body: a function with the ownership as its argument.
template <class Body, class Ownership>
concept section_body_for = std::invocable<std::decay_t<Body>&, Ownership&>;

/// A completion token for a body.
template <class CompletionToken, class Body, class Ownership>
concept section_token_for =
    boost::asio::completion_token_for<CompletionToken,
                                      section_signature_t<std::decay_t<Body>, Ownership>>;

/// Releases the ownership, and completes when this is done.
template <class Ownership, class CompletionToken>
auto async_release_owned(Ownership& owned, CompletionToken&& token)
{
    if constexpr (requires { owned.async_unlock(std::forward<CompletionToken>(token)); })
        return owned.async_unlock(std::forward<CompletionToken>(token));
    else
        return owned.async_release(std::forward<CompletionToken>(token));
}

/// Throws the error of a release or of the end of a job, unless the body has thrown. A loss is
/// thrown in any case: then the body ran without the ownership.
inline void report_end(const error_code& error, const std::exception_ptr& failure)
{
    if (error && (!failure || error == errc::lost))
        boost::throw_exception(system_error(error));
}

/// Awaits the body, and cancels it if the ownership is lost. After such a loss, it waits for the
/// body to end, and fails even if the body returned normally.
template <class Ownership, class Body>
boost::asio::awaitable<section_result_t<Body, Ownership>,
                       typename section_traits<Body, Ownership>::executor_type>
run_until_lost(Ownership& owned, Body& body)
{
    namespace asio = boost::asio;
    using result_type = section_result_t<Body, Ownership>;
    using executor_type = typename section_traits<Body, Ownership>::executor_type;

    struct fate
    {
        bool lost = false;
        asio::cancellation_signal stop;
    };
    const auto shared = std::make_shared<fate>();
    bool& lost = shared->lost;
    asio::cancellation_signal& stop = shared->stop;
    asio::cancellation_slot loss = owned.lost();
    // A body may move the ownership away. Then the slot may be triggered after the section, or be
    // destroyed.
    loss.assign(
        [weak = std::weak_ptr(shared)](asio::cancellation_type_t)
        {
            if (const auto self = weak.lock())
            {
                self->lost = true;
                self->stop.emit(asio::cancellation_type::terminal);
            }
        });
    const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
    asio::cancellation_slot outer = state.slot();
    if (outer.is_connected())
        outer.assign([&](asio::cancellation_type_t type) { stop.emit(type); });

    auto cancellable = [&]() -> asio::awaitable<result_type, executor_type>
    {
        co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
        co_return co_await body(owned);
    };
    if (!owned.valid())
        boost::throw_exception(system_error(errc::lost));
    const auto executor = co_await asio::this_coro::executor;
    auto running =
        asio::co_spawn(executor, cancellable,
                       asio::bind_cancellation_slot(stop.slot(), asio::as_tuple(asio::deferred)));
    // The exception of the body, and its result.
    auto ended = co_await std::move(running);
    if (owned.lost() == loss)
        loss.clear();
    if (lost || (owned && !owned.valid()))
        boost::throw_exception(system_error(errc::lost));
    if (std::get<0>(ended))
        std::rethrow_exception(std::get<0>(ended));
    if constexpr (!std::is_void_v<result_type>)
        co_return std::get<1>(std::move(ended));
}

/// Whether a guard or permit is local: it cannot be lost, and releasing it never waits. A lock_guard is
/// recognized by its unlock(), because its release() returns a token.
template <class Ownership>
inline constexpr bool is_local =
    requires(Ownership& owned) { owned.unlock(); } || requires(Ownership& owned) {
        { owned.release() } -> std::same_as<void>;
    };

/// Whether a job is of a local queue: it can be lost, but ending it never waits.
template <class Ownership>
inline constexpr bool is_local_job =
    requires(Ownership& owned) { guard_access::grant(owned).finish_now(); };

/// Runs a body that returns an awaitable, unless there is an error already or the section was cancelled
/// before this coroutine began, and always releases the ownership afterwards.
template <class Ownership, class Body>
boost::asio::awaitable<section_result_t<Body, Ownership>,
                       typename section_traits<Body, Ownership>::executor_type>
run_section(Ownership owned, Body body, error_code refused,
            boost::asio::cancellation_state cancellation)
{
    namespace asio = boost::asio;
    using result_type = section_result_t<Body, Ownership>;

    // If the executor has posted the start of this coroutine, co_spawn() has accepted only a terminal cancellation
    // meanwhile.
    if (!refused && cancellation.cancelled() != asio::cancellation_type::none)
        refused = asio::error::operation_aborted;
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    std::exception_ptr failure;
    std::conditional_t<std::is_void_v<result_type>, std::optional<bool>, std::optional<result_type>>
        result;
    try
    {
        if (refused)
            boost::throw_exception(system_error(refused));
        auto running = owned.lost().is_connected() ? run_until_lost(owned, body) : body(owned);
        if constexpr (std::is_void_v<result_type>)
            co_await std::move(running);
        else
            result.emplace(co_await std::move(running));
    }
    catch (...)
    {
        failure = std::current_exception();
        if constexpr (requires { body.pass_notification_on(); })
            body.pass_notification_on();
    }
    // The release must also happen if the section was cancelled.
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    if (owned)
    {
        // A local guard, permit or job ends without an operation. That would use the fallback
        // executor, whose context may be ending on another thread.
        if constexpr (is_local<Ownership>)
            owned = Ownership();
        else
        {
            error_code error;
            if constexpr (is_local_job<Ownership>)
                error = guard_access::grant(owned).release_now();
            else
                std::tie(error) =
                    co_await async_release_owned(owned, asio::as_tuple(asio::deferred));
            if (!refused)
                report_end(error, failure);
        }
    }
    if (failure)
        std::rethrow_exception(failure);
    if constexpr (!std::is_void_v<result_type>)
        co_return std::move(*result);
}

/// Converts a plain body into one that returns an awaitable.
template <class Body, class Ownership>
class awaitable_body
{
public:
    explicit awaitable_body(Body body)
        : body_(std::move(body))
    {
    }

    boost::asio::awaitable<section_result_t<Body, Ownership>> operator()(Ownership& owned)
    {
        co_return std::invoke(body_, owned);
    }

private:
    Body body_;
};

/// Receives the ownership, then runs the body.
template <class Handler, class Ownership, class Body, class Executor>
class section_handler
{
    using result_type = section_result_t<Body, Ownership>;

public:
    using executor_type = boost::asio::associated_executor_t<Handler, Executor>;
    using allocator_type = boost::asio::associated_allocator_t<Handler>;
    using cancellation_slot_type = boost::asio::cancellation_slot;

    section_handler(Handler&& handler, Body&& body, const Executor& executor)
        : executor_(boost::asio::get_associated_executor(handler, executor))
        , cancellation_(boost::asio::get_associated_cancellation_slot(handler),
                        boost::asio::enable_total_cancellation())
        , handler_(std::move(handler))
        , body_(std::move(body))
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_);
    }

    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept
    {
        return cancellation_.slot();
    }

    void operator()(error_code error, Ownership owned)
    {
        // A cancellation after the grant still prevents the body from starting.
        if (!error && cancellation_.cancelled() != boost::asio::cancellation_type::none)
            error = boost::asio::error::operation_aborted;
        if (error && (is_local<Ownership> || !owned))
            return fail(std::make_exception_ptr(system_error(error)), std::move(owned));
        if constexpr (section_traits<Body, Ownership>::is_awaitable)
            spawn(std::move(body_), std::move(owned), error);
        else if constexpr (is_local<Ownership>)
            run_plain(std::move(owned));
        else
            spawn(awaitable_body<Body, Ownership>(std::move(body_)), std::move(owned), error);
    }

protected:
    /// Completes without a section, with a result that is already known.
    template <std::same_as<result_type> Result>
    void complete(Result result)
    {
        clear_slot_of(handler_);
        std::move(handler_)(std::exception_ptr(), std::move(result));
    }

private:
    template <class Coroutine>
    void spawn(Coroutine body, Ownership owned, const error_code& error)
    {
        // Hides the handler's executor: co_spawn() would keep it in the slot, which may outlive the context.
        auto end = [handler = std::move(handler_)](auto&&... results) mutable
        {
            clear_slot_of(handler);
            std::move(handler)(std::forward<decltype(results)>(results)...);
        };
        boost::asio::co_spawn(
            executor_,
            run_section<Ownership, Coroutine>(std::move(owned), std::move(body), error,
                                              cancellation_),
            boost::asio::bind_cancellation_slot(cancellation_.slot(), std::move(end)));
    }

    void fail(std::exception_ptr failure, Ownership owned)
    {
        clear_slot_of(handler_);
        owned = Ownership();
        if constexpr (std::is_void_v<result_type>)
            std::move(handler_)(std::move(failure));
        else
            std::move(handler_)(std::move(failure), result_type());
    }

    void run_plain(Ownership owned)
    {
        // Not used if there is no result.
        using stored_type = std::conditional_t<std::is_void_v<result_type>, bool, result_type>;
        clear_slot_of(handler_);
        std::exception_ptr failure;
        std::optional<stored_type> result;
        try
        {
            if constexpr (std::is_void_v<result_type>)
                std::invoke(body_, owned);
            else
                result.emplace(std::invoke(body_, owned));
        }
        catch (...)
        {
            failure = std::current_exception();
        }
        if (failure)
            return fail(std::move(failure), std::move(owned));
        owned = Ownership();
        if constexpr (std::is_void_v<result_type>)
            std::move(handler_)(std::exception_ptr());
        else
            std::move(handler_)(std::exception_ptr(), std::move(*result));
    }

    executor_type executor_;
    boost::asio::cancellation_state cancellation_;
    Handler handler_;
    Body body_;
};

/// Starts a section with a token. @p acquire starts, with a handler, the operation that yields the ownership.
template <class Ownership, class Executor, class CompletionToken, class Acquire, class Body>
auto start_section(Executor executor, CompletionToken&& token, Acquire acquire, Body body)
{
    auto start = []<class Handler>(Handler&& handler, const Executor& fallback,
                                   Acquire start_acquiring, Body started)
    {
        auto own = routed<can_post>(std::forward<Handler>(handler), fallback);
        start_acquiring(section_handler<decltype(own), Ownership, Body, Executor>(
            std::move(own), std::move(started), fallback));
    };
    return boost::asio::async_initiate<CompletionToken, section_signature_t<Body, Ownership>>(
        executor_initiation(std::move(executor), start), token, std::move(acquire),
        std::move(body));
}

}  // namespace turnstile::detail

#endif
