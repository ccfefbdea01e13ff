// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAIT_OPERATION_HPP
#define TURNSTILE_DETAIL_WAIT_OPERATION_HPP

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/require.hpp>
#include <boost/assert.hpp>
#include <concepts>
#include <memory>
#include <source_location>
#include <turnstile/detail/bound_completion.hpp>
#include <turnstile/detail/clear_slot.hpp>
#include <turnstile/detail/error_report.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/executor_initiation.hpp>
#include <turnstile/detail/rerouted_handler.hpp>
#include <turnstile/detail/wait_queue_base.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/detail/work_executor.hpp>
#include <type_traits>
#include <utility>

// Converts a request into an Asio operation.
//
// A request is a small value that names a state and an operation on it:
//
//   result_type                       the result besides an error; may be void
//   executor()                        the fallback executor
//   state()                           the state in whose queue the attempt may be parked
//   try_start(attempt_base&)          tries without waiting; true if the attempt has ended: it is
//                                     granted or refused
//   start(waiter&, context*)          tries, else parks the waiter; true if the attempt has ended
//   begin_delivery(attempt_base&)     the attempt is about to be delivered, on its executor. If the
//                                     object has been destroyed, releases a grant: the attempt is
//                                     aborted. If the parameter is a waiter&, it is called only for
//                                     attempts that became a waiter
//   finish(attempt_base&) -> result   the result of an attempt that ended without an error; optional
//                                     if the result is void
//   undo_grant(attempt_base&)         the attempt has ended, but can never be delivered: undoes its
//                                     grant, if it has one. If the parameter is a waiter&, it is called
//                                     only for attempts that became a waiter
//   is_consuming()                    optional; true for an automatic event: an attempt with a
//                                     completion handler then becomes a waiter without a try, since
//                                     only a waiter can undo its grant
//   throw_error(error, attempt_base&) throws the exception of co_await for an error
//   location()                        where the operation was started
//   never_waits                       true if try_start() always ends the attempt; state(), start(),
//                                     begin_delivery(), undo_grant() and location() are not needed
//                                     then
//
// The initiating functions return a `wait_operation`: an Asio operation that accepts any completion
// token. In an awaitable<>, co_await needs no completion handler for it, unless it has a time limit
// and must wait.

namespace turnstile::detail {

template <class T>
struct wait_signature
{
    using type = void(error_code, T);
};

template <>
struct wait_signature<void>
{
    using type = void(error_code);
};

template <class Request>
using wait_signature_t = typename wait_signature<typename Request::result_type>::type;

/// The completion of an attempt that ended inside the initiating function. If it is destroyed
/// without being invoked, it releases the grant.
template <class Request, class Handler>
class immediate_completion
{
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    /// If the handler cannot be moved, undoes the grant.
    immediate_completion(const Request& request, const attempt_base& attempt, Handler&& handler)
    try
        : request_(request)
        , attempt_{attempt.value, attempt.result}
        , handler_(std::move(handler))
    {
    }
    catch (...)
    {
        undo(Request(request), attempt);
    }

    /// If the handler cannot be moved, @p other still has the grant.
    immediate_completion(immediate_completion&& other) noexcept(
        std::is_nothrow_move_constructible_v<Handler>)
        : request_(other.request_)
        , attempt_{other.attempt_.value, other.attempt_.result}
        , handler_(std::move(other.handler_))
        , pending_(std::exchange(other.pending_, false))
    {
    }

    immediate_completion& operator=(immediate_completion&&) = delete;

    ~immediate_completion()
    {
        if (pending_)
            undo(request_, attempt_);
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_);
    }

    void operator()()
    {
        pending_ = false;
        if constexpr (requires { request_.begin_delivery(attempt_); })
            request_.begin_delivery(attempt_);
        detail::with_result(request_, attempt_,
                            [this]<class... Args>(const error_code& error, Args&&... yield)
                            { std::move(handler_)(error, std::forward<Args>(yield)...); });
    }

private:
    static void undo([[maybe_unused]] Request request,
                     [[maybe_unused]] const attempt_base& attempt) noexcept
    {
        if constexpr (requires { request.undo_grant(attempt); })
            request.undo_grant(attempt);
    }

    Request request_;
    attempt_base attempt_;
    Handler handler_;
    bool pending_ = true;
};

/// Whether a handler has an immediate executor of its own. For a handler without one, Asio derives
/// an immediate executor from the executor that the caller passes. So the trait passes a type of
/// executor that no handler uses, and checks whether Asio's result is derived from it.
template <class Handler>
class has_immediate_executor
{
    struct nothing
    {
    };
    using probe = std::decay_t<boost::asio::require_result_t<
        boost::asio::io_context::executor_type,
        boost::asio::execution::allocator_t<std::allocator<nothing>>>>;

public:
    static constexpr bool value =
        !std::is_same_v<boost::asio::associated_immediate_executor_t<Handler, probe>,
                        boost::asio::associated_immediate_executor_t<nothing, probe>>;
};

/// Completes an attempt that ended inside the initiating function.
template <class Request, class Handler, class Executor>
void complete_immediately(const Request& request, const attempt_base& attempt, Handler&& handler,
                          const Executor& executor)
{
    using completion = immediate_completion<Request, Handler>;
    const auto own = boost::asio::get_associated_executor(handler, executor);
    if constexpr (!has_immediate_executor<Handler>::value)
        if (boost::asio::io_context* plain = plain_context_of(own))
            return boost::asio::post(plain->get_executor(),
                                     completion(request, attempt, std::forward<Handler>(handler)));
    // Before the handler is moved.
    const auto immediate = boost::asio::get_associated_immediate_executor(handler, own);
    boost::asio::dispatch(immediate, completion(request, attempt, std::forward<Handler>(handler)));
}

/// Tries to complete the operation of a completion handler without a waiter. Does not try for an
/// automatic event, because only a waiter sets the event again if it is not delivered.
template <class Request>
bool try_start_for_handler(Request& request, attempt_base& attempt)
{
    if constexpr (requires { request.is_consuming(); })
        if (request.is_consuming())
            return false;
    return request.try_start(attempt);
}

/// Submits a completion to the executor of a waiter.
template <class Executor, class Completion>
void post_to(const Executor& executor, const waiter& w, Completion&& completion)
{
    if (w.plain_context != nullptr)
        boost::asio::post(w.plain_context->get_executor(), std::forward<Completion>(completion));
    else
        boost::asio::post(executor, std::forward<Completion>(completion));
}

/// The first step of each delivery, on the waiter's executor. Also drops the waiter's reference to the
/// state, if it has one. A granted lock has none: the grant keeps the state alive.
template <class Request>
void accept_delivery(Request& request, waiter& w) noexcept
{
    request.begin_delivery(w);
    if (std::exchange(w.has_reference, false))
        w.queue->release_reference();
}

/// The waiter has ended, but its context shuts down: undoes its grant, and drops its reference to the
/// state, if it has one.
template <class Request>
void discard_delivery(Request& request, waiter& w) noexcept
{
    BOOST_ASSERT(w.stage == waiter_stage::ended);
    request.undo_grant(w);
    if (std::exchange(w.has_reference, false))
        w.queue->release_reference();
}

/// The posted completion of a waiter; it owns the waiter. If it is destroyed without being invoked, it
/// undoes the grant. A rerouted handler has a second one, which runs on the handler's own executor.
template <class Waiter, bool OnOwnExecutor = false>
class delivery
{
public:
    using allocator_type = typename Waiter::allocator_type;

    explicit delivery(Waiter& w) noexcept
        : waiter_(&w)
    {
    }

    delivery(delivery&& other) noexcept
        : waiter_(std::exchange(other.waiter_, nullptr))
    {
    }

    delivery& operator=(delivery&&) = delete;

    ~delivery()
    {
        if (waiter_ == nullptr)
            return;
        if constexpr (OnOwnExecutor)
            waiter_->discard_on_own_executor();
        else
            waiter_->discard();
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return waiter_->get_allocator(); }

    void operator()()
    {
        Waiter* const arrived = std::exchange(waiter_, nullptr);
        if constexpr (OnOwnExecutor)
            arrived->finish_on_own_executor();
        else
            arrived->deliver();
    }

private:
    Waiter* waiter_;
};

/// A parked attempt with a completion handler; allocated with the handler's allocator. @p Derived is
/// the whole operation. It provides the executor of the handler, deliver(), and drop(): the waiter will
/// never be delivered, so drop() destroys the operation without invoking the handler.
template <class Derived, class Request, class Handler>
class handler_waiter : public waiter
{
public:
    using allocator_type =
        boost::asio::associated_allocator_t<Handler, boost::asio::recycling_allocator<void>>;

    template <class Executor, class Limit>
    static void start(const Request& request, Handler&& handler, const Executor& executor,
                      const Limit& limit)
    {
        auto allocator = rebind(get_allocator(handler));
        Derived* self = std::allocator_traits<decltype(allocator)>::allocate(allocator, 1);
        try
        {
            new (self) Derived(request, std::move(handler), executor, limit);
        }
        catch (...)
        {
            std::allocator_traits<decltype(allocator)>::deallocate(allocator, self, 1);
            throw;
        }
        try
        {
            self->start_waiting();
        }
        catch (...)
        {
            clear_slot_of(self->handler_);
            self->drop();
            throw;
        }
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return get_allocator(handler_); }

    void discard() noexcept
    {
        canceller::detach(*this);
        discard_delivery(request_, *this);
        whole(*this).drop();
    }

    /// The same for the second delivery: the executor of the waiter has been moved out.
    void discard_on_own_executor() noexcept
    {
        canceller::detach(*this);
        discard_delivery(request_, *this);
        destroy_with_handler();
    }

    /// Begins the delivery, destroys the operation, then invokes the handler.
    void finish_on_own_executor()
    {
        clear_slot_of(handler_);
        accept_delivery(request_, *this);
        detail::with_result(
            request_, *this,
            [this]<class... Args>(const error_code& error, Args&&... yield)
            {
                // Frees the memory for the next operation before the handler runs.
                Handler handler = take_handler();
                std::tuple<std::decay_t<Args>...> kept(std::forward<Args>(yield)...);
                destroy(get_allocator(handler));
                std::apply([&](auto&&... args)
                           { std::move(detail::target(handler))(error, std::move(args)...); },
                           kept);
            });
    }

protected:
    template <class Executor>
    handler_waiter(const Request& request, Handler&& handler, const Executor& executor)
        : request_(request)
        , handler_(std::move(handler))
    {
        plain_context = plain_context_of(boost::asio::get_associated_executor(handler_, executor));
        static constexpr function_table table{&post, &discard, &locate};
        prepare(table, request_.state());
    }

    ~handler_waiter() = default;

    /// Parks the waiter, unless the attempt ends at once.
    void start_waiting()
    {
        // Before parking, since afterwards the handler may run and be destroyed at any moment.
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler_);
            slot.is_connected())
            slot.template emplace<canceller>(*this);
        if (request_.start(*this, context_of(whole(*this).get_executor())))
            post(*this);
    }

    /// Finishes on the handler's own executor, since the slot may be used only there. Meanwhile, the caller holds the
    /// executor of the waiter, so its context does not run out of work.
    void finish()
    {
        if constexpr (is_rerouted<Handler>)
        {
            // A copy, since the operation may end meanwhile.
            const auto home = handler_.home();
            boost::asio::dispatch(home, delivery<Derived, true>(whole(*this)));
        }
        else
            finish_on_own_executor();
    }

    void destroy_with_handler() noexcept
    try
    {
        const Handler handler = take_handler();
        destroy(get_allocator(handler));
    }
    catch (...)  // NOLINT(bugprone-empty-catch): the operation and its handler are destroyed
    {
    }

    Request request_;
    Handler handler_;

private:
    static Derived& whole(waiter& w) noexcept { return static_cast<Derived&>(w); }

    /// Moves the handler out. If that fails, destroys the operation.
    Handler take_handler()
    try
    {
        return std::move(handler_);
    }
    catch (...)
    {
        destroy(get_allocator());
        throw;
    }

    static void post(waiter& w) noexcept
    {
        // A copy, since the operation may end meanwhile.
        const auto executor = whole(w).get_executor();
        detail::post_to(executor, w, delivery<Derived>(whole(w)));
    }

    static void discard(waiter& w) noexcept
    {
        canceller::detach(w);
        whole(w).drop();
    }

    static std::source_location locate(const waiter& w) noexcept
    {
        return static_cast<const handler_waiter&>(w).request_.location();
    }

    void destroy(const allocator_type& allocator) noexcept
    {
        auto rebound = rebind(allocator);
        Derived* self = &whole(*this);
        self->~Derived();
        std::allocator_traits<decltype(rebound)>::deallocate(rebound, self, 1);
    }

    static allocator_type get_allocator(const Handler& handler) noexcept
    {
        return boost::asio::get_associated_allocator(handler,
                                                     boost::asio::recycling_allocator<void>());
    }

    static auto rebind(const allocator_type& allocator) noexcept
    {
        using traits = std::allocator_traits<allocator_type>;
        return typename traits::template rebind_alloc<Derived>(allocator);
    }
};

/// A parked attempt without a time limit.
template <class Request, class Handler, class OwnExecutor>
class untimed_waiter final
    : public handler_waiter<untimed_waiter<Request, Handler, OwnExecutor>, Request, Handler>
{
    using base = handler_waiter<untimed_waiter, Request, Handler>;
    friend base;

public:
    void deliver()
    {
        [[maybe_unused]] const auto work = std::move(work_);
        base::finish();
    }

private:
    template <class Limit>
    untimed_waiter(const Request& request, Handler&& handler, const OwnExecutor& executor,
                   const Limit& /*limit*/)
        : base(request, std::move(handler), executor)
        , work_(boost::asio::get_associated_executor(base::handler_, executor))
    {
    }

    // A value for an executor of the Networking TS, else a reference.
    [[nodiscard]] decltype(auto) get_executor() const noexcept { return work_.get_executor(); }

    void drop() noexcept
    {
        [[maybe_unused]] const auto work = std::move(work_);
        base::destroy_with_handler();
    }

    work_executor<boost::asio::associated_executor_t<Handler, OwnExecutor>> work_;
};

/// No time limit. Each class of limits names the waiter class for attempts with this limit, and a
/// trait that is true for the executors that the waiter class accepts.
struct no_limit
{
    template <class Request, class Handler, class OwnExecutor>
    using waiter_type = untimed_waiter<Request, Handler, OwnExecutor>;

    template <class Executor>
    using accepts = can_post<Executor>;
};

/// Starts a request for a completion handler.
template <class Executor>
auto initiate_wait(Executor executor)
{
    return executor_initiation(
        std::move(executor),
        []<class Handler, class Request, class Limit>(Handler&& handler, const Executor& fallback,
                                                      Request request, const Limit& limit)
        {
            auto own = routed<Limit::template accepts>(std::forward<Handler>(handler), fallback);
            attempt_base attempt;
            if (detail::try_start_for_handler(request, attempt))
                detail::complete_immediately(request, attempt, std::move(own), fallback);
            else if constexpr (!Request::never_waits)
                Limit::template waiter_type<Request, decltype(own), Executor>::start(
                    request, std::move(own), fallback, limit);
        });
}

/**
 * @brief An Asio operation that has not been started.
 *
 * It is started by awaiting it, or by calling it with a completion token. The object that created
 * it must still exist then.
 */
template <class Request, class Limit = no_limit, class Report = throwing_report>
class [[nodiscard("an operation does nothing until it is awaited or called with a completion "
                  "token")]] wait_operation
{
public:
    using request_type = Request;
    using limit_type = Limit;
    using report_type = Report;
    using awaited_type = awaited_t<Request, Report>;

    explicit wait_operation(const Request& request, const Limit& limit = Limit(),
                            const Report& report = Report()) noexcept
        : request_(request)
        , limit_(limit)
        , report_(report)
    {
    }

    template <class CompletionToken>
        requires boost::asio::completion_token_for<adapted_t<Report, CompletionToken>,
                                                   wait_signature_t<Request>>
    auto operator()(CompletionToken&& token) const
    {
        auto&& adapted = report_.adapt(std::forward<CompletionToken>(token));
        return boost::asio::async_initiate<adapted_t<Report, CompletionToken>,
                                           wait_signature_t<Request>>(
            detail::initiate_wait(request_.executor()), adapted, request_, limit_);
    }

    [[nodiscard]] const Request& request() const noexcept { return request_; }
    [[nodiscard]] const Report& report() const noexcept { return report_; }

    /// The same operation with another report.
    template <class Other>
    [[nodiscard]] auto reporting(const Other& report) const noexcept
        requires std::same_as<Report, throwing_report>
    {
        return wait_operation<Request, Limit, Other>(request_, limit_, report);
    }

private:
    Request request_;
    [[no_unique_address]] Limit limit_;
    [[no_unique_address]] Report report_;
};

}  // namespace turnstile::detail

/// Composes with `boost::asio::deferred` like Asio's own operations.
template <class Request, class Limit, class Report>
struct boost::asio::is_deferred<turnstile::detail::wait_operation<Request, Limit, Report>>
    : std::true_type
{
};

#endif
