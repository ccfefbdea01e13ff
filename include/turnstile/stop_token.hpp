// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_STOP_TOKEN_HPP
#define TURNSTILE_STOP_TOKEN_HPP

#include <atomic>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <turnstile/detail/clear_slot.hpp>
#include <turnstile/detail/promise_executor.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

namespace detail {

/// Connects a stop token with a cancellation signal while an operation runs. Everything runs on the
/// executor of the handler, one function at a time, except the callback of the token.
template <class Executor>
class stop_link : public std::enable_shared_from_this<stop_link<Executor>>
{
public:
    explicit stop_link(const Executor& executor)
        : executor_(executor)
    {
    }

    [[nodiscard]] boost::asio::cancellation_slot slot() noexcept { return signal_.slot(); }

    /// Called before the operation is started.
    void start(std::stop_token token) { callback_.emplace(std::move(token), notify{this}); }

    /// Called when the operation has been started. Before that, a cancellation could come too early: another thread
    /// may run the executor.
    void operation_started() { reach_step(); }

    void emit(boost::asio::cancellation_type_t type)
    {
        if (!ended_)
            signal_.emit(type);
    }

    /// Called when the operation has ended.
    void stop() noexcept
    {
        ended_ = true;
        callback_.reset();
    }

private:
    struct notify
    {
        stop_link* link;

        // Runs on the thread that requests the stop. The operation keeps the link alive meanwhile,
        // since destroying the callback waits until this function has returned.
        void operator()() const { link->reach_step(); }
    };

    /// The last of two steps posts the cancellation: the stop request and the start of the operation.
    void reach_step()
    {
        if (steps_left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            boost::asio::post(executor_,
                              [weak = this->weak_from_this()]
                              {
                                  if (const auto self = weak.lock())
                                      self->emit(boost::asio::cancellation_type::terminal);
                              });
    }

    Executor executor_;
    std::atomic<int> steps_left_{2};
    boost::asio::cancellation_signal signal_;
    bool ended_ = false;
    std::optional<std::stop_callback<notify>> callback_;
};

/// The handler of an operation that a stop token can cancel.
template <class Handler, class Executor>
class stoppable_handler
{
public:
    stoppable_handler(Handler&& handler, std::shared_ptr<stop_link<Executor>> link)
        : handler_(std::move(handler))
        , link_(std::move(link))
    {
    }

    [[nodiscard]] const Handler& get() const noexcept { return handler_; }

    template <class... Args>
    void operator()(Args&&... args)
    {
        clear_slot_of(handler_);
        link_->stop();
        link_.reset();
        std::move(handler_)(std::forward<Args>(args)...);
    }

private:
    Handler handler_;
    std::shared_ptr<stop_link<Executor>> link_;
};

/// Returns the handler. That of a future gets a strand, because several threads run its own executor: the cancellation
/// must not run at the same time as the completion.
template <class Handler>
auto serialized(Handler&& handler)
{
    using handler_type = std::decay_t<Handler>;
    if constexpr (is_promise_executor<boost::asio::associated_executor_t<handler_type>>)
        return boost::asio::bind_executor(boost::asio::make_strand(boost::asio::system_executor()),
                                          std::forward<Handler>(handler));
    else
        return handler_type(std::forward<Handler>(handler));
}

/// Starts an operation that a stop token can cancel.
template <class Initiation>
class initiate_stoppable
{
public:
    using executor_type = boost::asio::associated_executor_t<Initiation>;

    explicit initiate_stoppable(Initiation initiation)
        : initiation_(std::move(initiation))
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return boost::asio::get_associated_executor(initiation_);
    }

    template <class Handler, class... Args>
    void operator()(Handler&& handler, std::stop_token token, Args&&... args) &&
    {
        auto own = detail::serialized(std::forward<Handler>(handler));
        using handler_type = decltype(own);
        // The default executor is that of the operation.
        using own_executor =
            boost::asio::associated_executor_t<Initiation, boost::asio::system_executor>;
        using handler_executor = boost::asio::associated_executor_t<handler_type, own_executor>;
        auto link =
            std::make_shared<stop_link<handler_executor>>(boost::asio::get_associated_executor(
                own,
                boost::asio::get_associated_executor(initiation_, boost::asio::system_executor())));
        // The operation's own cancellation is forwarded in the same way. The slot may outlive the
        // context of the handler. So it must not keep the link alive: a stop request would then
        // still post to that context.
        if (auto slot = boost::asio::get_associated_cancellation_slot(own); slot.is_connected())
            slot.assign(
                [weak = std::weak_ptr(link)](boost::asio::cancellation_type_t type)
                {
                    if (const auto self = weak.lock())
                        self->emit(type);
                });
        stoppable_handler<handler_type, handler_executor> wrapped(std::move(own), link);
        link->start(std::move(token));
        std::move(initiation_)(
            boost::asio::bind_cancellation_slot(link->slot(), std::move(wrapped)),
            std::forward<Args>(args)...);
        link->operation_started();
    }

private:
    Initiation initiation_;
};

}  // namespace detail

/**
 * @brief A completion token adapter for cancellation by a `std::stop_token`.
 *
 * Created by @ref bind_stop_token.
 */
template <class CompletionToken>
class stop_token_binder
{
public:
    /// Constructs the adapter.
    template <class T>
    stop_token_binder(std::stop_token stop, T&& token)
        : stop_(std::move(stop))
        , token_(std::forward<T>(token))
    {
    }

    /// The stop token.
    [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }

    /// The adapted completion token.
    [[nodiscard]] CompletionToken& token() noexcept { return token_; }

    /// The adapted completion token.
    [[nodiscard]] const CompletionToken& token() const noexcept { return token_; }

private:
    std::stop_token stop_;
    CompletionToken token_;
};

/**
 * @brief Lets a `std::stop_token` cancel an operation, of Turnstile or of Asio.
 *
 * @code
 * auto guard = co_await mutex.async_lock(turnstile::bind_stop_token(stop, asio::deferred));
 * @endcode
 *
 * A stop request emits a terminal cancellation on the associated executor of the handler, which must
 * be able to post: `asio::inline_executor` and `asio::any_completion_executor` are not. The operation
 * completes as if its own slot had been triggered. Use it to connect coroutines with code that is
 * written for `std::jthread`. Between Asio operations, cancellation slots are cheaper.
 *
 * Asio requires that no handler of the operation runs while a signal is emitted. So if several threads
 * run the executor of the handler, it has to be a strand. A handler of `use_future` gets a strand of the
 * system executor.
 *
 * @param stop  the stop token; has no effect if it cannot be stopped.
 * @param token the completion token of the operation.
 * @par Thread safety
 * The stop may be requested on any thread, but not while another one destroys the context of the
 * handler's executor.
 * @par Complexity
 * One allocation, with `use_future` that of a strand, too; one posted function if the stop is requested.
 */
template <class CompletionToken = boost::asio::deferred_t>
[[nodiscard]] auto bind_stop_token(std::stop_token stop, CompletionToken&& token = {})
{
    return stop_token_binder<std::decay_t<CompletionToken>>(std::move(stop),
                                                            std::forward<CompletionToken>(token));
}

}  // namespace turnstile

namespace boost::asio {

/// The associators of a stoppable handler are those of its inner handler.
template <template <class, class> class Associator, class Handler, class Executor, class Default>
struct associator<Associator, turnstile::detail::stoppable_handler<Handler, Executor>, Default>
    : Associator<Handler, Default>
{
    /// The association of the inner handler.
    static auto get(const turnstile::detail::stoppable_handler<Handler, Executor>& handler) noexcept
    {
        return Associator<Handler, Default>::get(handler.get());
    }

    /// The association of the inner handler.
    static auto get(const turnstile::detail::stoppable_handler<Handler, Executor>& handler,
                    const Default& fallback) noexcept
    {
        return Associator<Handler, Default>::get(handler.get(), fallback);
    }
};

/// Adapts operations for @ref turnstile::stop_token_binder.
template <class CompletionToken, class... Signatures>
class async_result<turnstile::stop_token_binder<CompletionToken>, Signatures...>
{
    /// A const token has a const inner token.
    template <class Token>
    using inner_token = std::conditional_t<std::is_const_v<std::remove_reference_t<Token>>,
                                           const CompletionToken, CompletionToken>;

    template <class Initiation>
    using started_by = turnstile::detail::initiate_stoppable<std::decay_t<Initiation>>;

public:
    /// Starts the operation with the adapted token. The return type is declared, because a check of
    /// a completion token passes an initiation whose start does not compile.
    template <class Initiation, class Token, class... Args>
    static auto initiate(Initiation&& initiation, Token&& token, Args&&... args)
        -> decltype(boost::asio::async_initiate<inner_token<Token>, Signatures...>(
            std::declval<started_by<Initiation>>(), token.token(), token.stop(),
            std::forward<Args>(args)...))
    {
        return boost::asio::async_initiate<inner_token<Token>, Signatures...>(
            started_by<Initiation>(std::forward<Initiation>(initiation)), token.token(),
            token.stop(), std::forward<Args>(args)...);
    }
};

}  // namespace boost::asio

#endif
