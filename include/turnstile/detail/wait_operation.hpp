// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WAIT_OPERATION_HPP
#define TURNSTILE_DETAIL_WAIT_OPERATION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associated_immediate_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/require.hpp>
#include <concepts>
#include <memory>
#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/waiter.hpp>
#include <type_traits>
#include <utility>

// From a request to an Asio operation.
//
// A request is a small value that says what is wanted of which state:
//
//   result_type                    what the operation yields besides an error; may be void
//   executor()                     runs handlers that have no executor of their own
//   queue()                        the queue it may have to wait in
//   try_start(ticket&)             try without waiting; true if the attempt is over
//   start(waiter&, context*)       try once more, else park the waiter; true if the attempt is over
//   arrive(waiter&)                the waiter is about to be delivered, on its executor
//   finish(ticket&) -> result      makes the result of an attempt that ended without an error
//   abandon(ticket&)               the attempt was completed but can never be delivered
//   throw_error(error, ticket&)    throws what co_await throws if there is an error
//   location()                     where the operation was started
//   never_waits                    true if try_start() always ends the attempt: queue(), start(),
//                                  arrive() and location() are not needed then
//
// `wait_operation` is what the initiating functions return: an Asio operation that accepts any
// completion token, and that an awaitable<> can co_await without the detour through a handler.

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

template <class Executor>
boost::asio::execution_context* context_of(const Executor& executor)
{
    if constexpr (boost::asio::can_query_v<const Executor&, boost::asio::execution::context_t>)
        return std::addressof(static_cast<boost::asio::execution_context&>(
            boost::asio::query(executor, boost::asio::execution::context)));
    else
        return nullptr;
}

/// The io_context, if that is all that the executor stands for.
template <class Executor>
boost::asio::io_context* plain_context_of(const Executor& executor) noexcept
{
    using plain_executor = boost::asio::io_context::executor_type;
    if constexpr (std::is_same_v<Executor, plain_executor>)
        return std::addressof(executor.context());
    else if constexpr (std::is_same_v<Executor, boost::asio::any_io_executor>)
    {
        const auto* target = executor.template target<plain_executor>();
        return target != nullptr ? std::addressof(target->context()) : nullptr;
    }
    else
        return nullptr;
}

/// A nullary function that invokes a handler with its arguments, and associates the allocator of
/// the handler but not its executor: it is submitted to the right one already.
template <class Handler, class... Args>
class bound_completion
{
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    template <class... A>
    explicit bound_completion(Handler&& handler, A&&... args)
        : handler_(std::move(handler))
        , args_(std::forward<A>(args)...)
    {
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_);
    }

    void operator()() { std::apply(std::move(handler_), std::move(args_)); }

private:
    Handler handler_;
    std::tuple<Args...> args_;
};

/// Calls use(error, result) or use(error) with the result of an attempt that is over.
template <class Request, class Use>
void with_result(Request& request, ticket& attempt, Use use)
{
    const error_code error = to_error_code(attempt.result);
    if constexpr (std::is_void_v<typename Request::result_type>)
        use(error);
    else if (error)
        use(error, typename Request::result_type());
    else
        use(error, request.finish(attempt));
}

/// The result of an attempt that is over, as co_await and the synchronous functions yield it.
template <class Request>
typename Request::result_type result_of(Request& request, ticket& attempt)
{
    if (!is_success(attempt.result)) [[unlikely]]
        request.throw_error(to_error_code(attempt.result), attempt);
    if constexpr (!std::is_void_v<typename Request::result_type>)
        return request.finish(attempt);
}

/// The completion of an attempt that is over before the initiating function returns. One that is
/// destroyed instead of being run gives back what was granted.
template <class Request, class Handler>
class immediate_completion
{
public:
    using allocator_type = boost::asio::associated_allocator_t<Handler>;

    immediate_completion(const Request& request, const ticket& attempt, Handler&& handler)
        : request_(request)
        , attempt_{attempt.value, attempt.result}
        , handler_(std::move(handler))
    {
    }

    immediate_completion(immediate_completion&& other) noexcept
        : request_(other.request_)
        , attempt_{other.attempt_.value, other.attempt_.result}
        , pending_(std::exchange(other.pending_, false))
        , handler_(std::move(other.handler_))
    {
    }

    immediate_completion& operator=(immediate_completion&&) = delete;

    ~immediate_completion()
    {
        if constexpr (requires { request_.abandon(attempt_); })
            if (pending_)
                request_.abandon(attempt_);
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return boost::asio::get_associated_allocator(handler_);
    }

    void operator()()
    {
        pending_ = false;
        with_result(request_, attempt_,
                    [this]<class... Args>(const error_code& error, Args&&... yield)
                    { std::move(handler_)(error, std::forward<Args>(yield)...); });
    }

private:
    Request request_;
    ticket attempt_;
    bool pending_ = true;
    Handler handler_;
};

/// Whether a handler has an immediate executor of its own. If not, asking for it yields one that is
/// made of the executor in the question; so the question is put with one that nobody else has.
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

/// Completes an attempt that is over before the initiating function returns.
template <class Request, class Handler, class Executor>
void complete_immediately(const Request& request, const ticket& attempt, Handler&& handler,
                          const Executor& executor)
{
    using completion = immediate_completion<Request, Handler>;
    const auto own = boost::asio::get_associated_executor(handler, executor);
    if constexpr (!has_immediate_executor<Handler>::value)
        if (boost::asio::io_context* plain = plain_context_of(own))
            return boost::asio::post(plain->get_executor(),
                                     completion(request, attempt, std::forward<Handler>(handler)));
    boost::asio::dispatch(boost::asio::get_associated_immediate_executor(handler, own),
                          completion(request, attempt, std::forward<Handler>(handler)));
}

/// Tries for a completion handler. A passage that uses something up, but whose completion holds
/// nothing that could give it back, has to go through a waiter.
template <class Request>
bool try_start_for_handler(Request& request, ticket& attempt)
{
    if constexpr (requires { request.uses_something_up(); })
        if (request.uses_something_up())
            return false;
    return request.try_start(attempt);
}

/// Submits a completion to the executor of a waiter.
template <class Executor, class Completion>
void post_to(const Executor& executor, const waiter& w, Completion&& completion)
{
    if (w.plain != nullptr)
        boost::asio::post(w.plain->get_executor(), std::forward<Completion>(completion));
    else
        boost::asio::post(executor, std::forward<Completion>(completion));
}

/// What every waiter does first when it is delivered. Called on the waiter's executor.
template <class Request>
void arrive(Request& request, waiter& w) noexcept
{
    request.arrive(w);
    if (std::exchange(w.referenced, false))
        w.queue->release_reference();
}

/// What every waiter does that was completed, but whose context will never deliver it.
template <class Request>
void abandon(Request& request, waiter& w) noexcept
{
    request.abandon(w);
    if (std::exchange(w.referenced, false))
        w.queue->release_reference();
}

/// The posted completion of an operation, which it owns: one that is destroyed instead of being run
/// gives back what was granted.
template <class Operation>
class delivery
{
public:
    using allocator_type = typename Operation::allocator_type;

    explicit delivery(Operation& operation) noexcept
        : operation_(&operation)
    {
    }

    delivery(delivery&& other) noexcept
        : operation_(std::exchange(other.operation_, nullptr))
    {
    }

    delivery& operator=(delivery&&) = delete;

    ~delivery()
    {
        if (operation_ != nullptr)
            operation_->abandon();
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept
    {
        return operation_->get_allocator();
    }

    void operator()() { std::exchange(operation_, nullptr)->deliver(); }

private:
    Operation* operation_;
};

/// An executor that counts as outstanding work; half the size of an executor_work_guard.
template <class Executor>
class work_executor
{
    using tracked_type = std::decay_t<boost::asio::prefer_result_t<
        Executor, boost::asio::execution::outstanding_work_t::tracked_t>>;

public:
    explicit work_executor(const Executor& executor)
        : executor_(boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked))
    {
    }

    [[nodiscard]] const tracked_type& get_executor() const noexcept { return executor_; }

private:
    tracked_type executor_;
};

/// An executor of the kind that Asio had before its properties.
template <class Executor>
    requires(!boost::asio::execution::is_executor<Executor>::value)
class work_executor<Executor> : public boost::asio::executor_work_guard<Executor>
{
public:
    using boost::asio::executor_work_guard<Executor>::executor_work_guard;
};

/// A parked attempt with a completion handler; allocated with the handler's allocator.
template <class Request, class Handler, class OwnExecutor>
class handler_waiter final : public waiter
{
    using executor_type = boost::asio::associated_executor_t<Handler, OwnExecutor>;

public:
    using allocator_type =
        boost::asio::associated_allocator_t<Handler, boost::asio::recycling_allocator<void>>;

    static void start(const Request& request, Handler&& handler, const OwnExecutor& executor)
    {
        auto allocator = rebind(get_allocator(handler));
        handler_waiter* self = std::allocator_traits<decltype(allocator)>::allocate(allocator, 1);
        try
        {
            new (self) handler_waiter(request, std::move(handler), executor);
        }
        catch (...)
        {
            std::allocator_traits<decltype(allocator)>::deallocate(allocator, self, 1);
            throw;
        }
        self->park();
    }

    [[nodiscard]] allocator_type get_allocator() const noexcept { return get_allocator(handler_); }

    void deliver()
    {
        if (auto slot = boost::asio::get_associated_cancellation_slot(handler_);
            slot.is_connected())
            slot.clear();
        detail::arrive(request_, *this);
        with_result(request_, *this,
                    [this]<class... Args>(const error_code& error, Args&&... yield)
                    {
                        // The memory is free for the next operation before the handler runs.
                        [[maybe_unused]] const auto work = std::move(work_);
                        Handler handler(std::move(handler_));
                        std::tuple<std::decay_t<Args>...> kept(std::forward<Args>(yield)...);
                        destroy(rebind(get_allocator(handler)));
                        std::apply([&](auto&&... args)
                                   { std::move(handler)(error, std::move(args)...); }, kept);
                    });
    }

    void abandon() noexcept
    {
        detail::abandon(request_, *this);
        destroy_with_handler();
    }

private:
    using rebound =
        typename std::allocator_traits<allocator_type>::template rebind_alloc<handler_waiter>;

    handler_waiter(const Request& request, Handler&& handler, const OwnExecutor& executor)
        : work_(boost::asio::get_associated_executor(handler, executor))
        , request_(request)
        , handler_(std::move(handler))
    {
        plain = plain_context_of(boost::asio::get_associated_executor(handler_, executor));
        static constexpr behaviour kind{&complete, &discard};
        prepare(kind, request_.queue(), request_.location());
    }

    void park()
    {
        auto slot = boost::asio::get_associated_cancellation_slot(handler_);
        try
        {
            // Before parking: afterwards the handler may run, and be gone, at any moment.
            if (slot.is_connected())
                slot.template emplace<canceller>(canceller{this});
            if (request_.start(*this, context_of(work_.get_executor())))
                complete(*this);
        }
        catch (...)
        {
            if (slot.is_connected())
                slot.clear();
            destroy_with_handler();
            throw;
        }
    }

    static void complete(waiter& w) noexcept
    {
        auto& self = static_cast<handler_waiter&>(w);
        const auto executor = self.work_.get_executor();
        post_to(executor, w, delivery<handler_waiter>(self));
    }

    static void discard(waiter& w) noexcept
    {
        static_cast<handler_waiter&>(w).destroy_with_handler();
    }

    void destroy_with_handler() noexcept
    {
        [[maybe_unused]] const auto work = std::move(work_);
        const Handler handler(std::move(handler_));
        destroy(rebind(get_allocator(handler)));
    }

    void destroy(rebound allocator) noexcept
    {
        this->~handler_waiter();
        std::allocator_traits<rebound>::deallocate(allocator, this, 1);
    }

    static allocator_type get_allocator(const Handler& handler) noexcept
    {
        return boost::asio::get_associated_allocator(handler,
                                                     boost::asio::recycling_allocator<void>());
    }

    static rebound rebind(const allocator_type& allocator) noexcept { return rebound(allocator); }

    work_executor<executor_type> work_;
    Request request_;
    Handler handler_;
};

/// Starts a request for a completion handler. Named, and with an executor, as cancel_after wants
/// it.
template <class Executor>
class initiate_wait
{
public:
    using executor_type = Executor;

    explicit initiate_wait(Executor executor) noexcept
        : executor_(std::move(executor))
    {
    }

    [[nodiscard]] const executor_type& get_executor() const noexcept { return executor_; }

    template <class Handler, class Request>
    void operator()(Handler&& handler, Request request) const
    {
        using handler_type = std::decay_t<Handler>;
        // Users may pass handlers that are lvalues.
        handler_type own(std::forward<Handler>(handler));
        ticket attempt;
        if (try_start_for_handler(request, attempt))
            complete_immediately(request, attempt, std::move(own), executor_);
        else if constexpr (!Request::never_waits)
            handler_waiter<Request, handler_type, Executor>::start(request, std::move(own),
                                                                   executor_);
    }

private:
    Executor executor_;
};

/**
 * @brief An Asio operation that was not started yet.
 *
 * Start it by awaiting it, or by calling it with a completion token. The object that it was made by
 * must be alive then.
 */
template <class Request>
class wait_operation
{
public:
    using request_type = Request;

    explicit wait_operation(const Request& request) noexcept
        : request_(request)
    {
    }

    template <boost::asio::completion_token_for<wait_signature_t<Request>> CompletionToken>
    auto operator()(CompletionToken&& token) const
    {
        return boost::asio::async_initiate<CompletionToken, wait_signature_t<Request>>(
            initiate_wait(request_.executor()), token, request_);
    }

    [[nodiscard]] const Request& request() const noexcept { return request_; }

private:
    Request request_;
};

/// Starts a request with a token; with `deferred`, returns the operation, which co_await takes as
/// it is.
template <class Request, class CompletionToken>
auto start_with(const Request& request, CompletionToken&& token)
{
    wait_operation<Request> operation(request);
    if constexpr (std::is_same_v<std::decay_t<CompletionToken>, boost::asio::deferred_t>)
        return operation;
    else
        return operation(std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

/// An operation composes with `boost::asio::deferred` like those of Asio itself.
template <class Request>
struct boost::asio::is_deferred<turnstile::detail::wait_operation<Request>> : std::true_type
{
};

#endif
