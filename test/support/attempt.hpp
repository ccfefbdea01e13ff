// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_ATTEMPT_HPP
#define TURNSTILE_TEST_SUPPORT_ATTEMPT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace turnstile::test {

/// Runs all ready handlers of a context on this thread.
inline void drain(boost::asio::io_context& context)
{
    do
        context.restart();
    while (context.poll() != 0);
}

/// The two ways to wait, which the library implements separately.
enum class path
{
    handler,
    coroutine,
};

/// The types of cancellation with which a wait can be ended.
inline constexpr boost::asio::cancellation_type each_type[] = {
    boost::asio::cancellation_type::total, boost::asio::cancellation_type::partial,
    boost::asio::cancellation_type::terminal};

/**
 * @brief One operation from its start to its end, as a test sees it. Launched once.
 *
 * @tparam T the result of the operation, or void. An optional result is unpacked.
 */
template <class T = void>
class attempt
{
public:
    using value_type = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

    attempt() = default;

    /// An attempt that appends its name to a journal when it completes.
    attempt(std::string& journal, char name)
        : journal_(&journal)
        , name_(name)
    {
    }

    attempt(const attempt&) = delete;
    attempt& operator=(const attempt&) = delete;

    /// Short text for comparisons: "idle" until launched, "waiting", then "done", "timed out" or the
    /// name of the error; "dropped" if the handler was destroyed without a call.
    [[nodiscard]] std::string state() const
    {
        if (times_ > 1)
            return "completed twice";
        if (times_ == 0)
            return life_.use_count() > 1 ? "waiting" : launched_ ? "dropped" : "idle";
        return error_ ? name_of(error_) : empty_ ? "timed out" : "done";
    }

    [[nodiscard]] bool is_complete() const { return times_ != 0; }
    [[nodiscard]] const error_code& error() const { return error_; }

    /// The text of the exception that a coroutine caught.
    [[nodiscard]] const std::string& text() const { return text_; }

    [[nodiscard]] value_type& value() { return value_; }
    [[nodiscard]] const value_type& value() const { return value_; }

    /// Emits the signal. A coroutine receives it when its context runs.
    void cancel(boost::asio::cancellation_type type = boost::asio::cancellation_type::total)
    {
        signal_.emit(type);
    }

    // For launch().

    [[nodiscard]] boost::asio::cancellation_slot slot() { return signal_.slot(); }

    [[nodiscard]] std::shared_ptr<int> begin()
    {
        launched_ = true;
        return life_;
    }

    void complete(const error_code& error, std::string text = {})
    {
        ++times_;
        error_ = error;
        text_ = std::move(text);
        if (journal_ != nullptr)
            *journal_ += name_;
    }

    template <class Result>
    void complete(const error_code& error, Result result)
    {
        if constexpr (std::is_same_v<Result, std::optional<value_type>>)
        {
            empty_ = !result;
            if (result)
                value_ = std::move(*result);
        }
        else
        {
            value_ = std::move(result);
        }
        complete(error);
    }

private:
    static std::string name_of(const error_code& error)
    {
        if (error == boost::asio::error::operation_aborted)
            return "aborted";
        static constexpr const char* names[] = {
            "not owner",    "closed", "invalid count",   "over release", "empty guard",
            "wrong object", "lost",   "no participants", "duplicate",    "predicate threw"};
        if (error.category() == turnstile_category())
            return names[error.value() - 1];
        return error.message();
    }

    std::string* journal_ = nullptr;
    char name_ = '?';
    bool launched_ = false;
    bool empty_ = false;
    int times_ = 0;
    error_code error_;
    std::string text_;
    value_type value_{};
    boost::asio::cancellation_signal signal_;
    std::shared_ptr<int> life_ = std::make_shared<int>();
};

/// The completion handler of an attempt.
template <class T>
class receiver
{
public:
    using executor_type = boost::asio::any_io_executor;
    using cancellation_slot_type = boost::asio::cancellation_slot;

    receiver(attempt<T>& to, executor_type executor, bool cancellable)
        : to_(&to)
        , life_(to.begin())
        , executor_(std::move(executor))
        , slot_(cancellable ? to.slot() : cancellation_slot_type())
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot_; }

    void operator()(const error_code& error) { to_->complete(error); }

    template <class Result>
    void operator()(const error_code& error, Result result)
    {
        to_->complete(error, std::move(result));
    }

private:
    attempt<T>* to_;
    std::shared_ptr<int> life_;
    executor_type executor_;
    cancellation_slot_type slot_;
};

/// The completion handler of a coroutine that must not fail.
struct rethrower
{
    using cancellation_slot_type = boost::asio::cancellation_slot;

    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot; }

    void operator()(const std::exception_ptr& error) const
    {
        if (error)
            std::rethrow_exception(error);
    }

    cancellation_slot_type slot{};
};

template <class T, class Operation>
boost::asio::awaitable<void> attempt_in_coroutine(attempt<T>& a, std::function<Operation()> make,
                                                  std::shared_ptr<int> /*life*/)
{
    co_await boost::asio::this_coro::reset_cancellation_state(
        boost::asio::enable_total_cancellation());
    error_code error;
    std::string text;
    try
    {
        if constexpr (std::is_void_v<T>)
        {
            co_await make();
            a.complete({});
        }
        else
        {
            a.complete({}, co_await make());
        }
        co_return;
    }
    catch (const system_error& failure)
    {
        error = failure.code();
        text = failure.what();
    }
    a.complete(error, std::move(text));
}

template <class T, class Operation>
void launch_operation(path how, const boost::asio::any_io_executor& executor, attempt<T>& a,
                      std::function<Operation()> make, bool cancellable)
{
    if (how == path::handler)
        make()(receiver<T>(a, executor, cancellable));
    else
        boost::asio::co_spawn(executor, attempt_in_coroutine(a, std::move(make), a.begin()),
                              rethrower{cancellable ? a.slot() : boost::asio::cancellation_slot()});
}

/// Starts the operation that @p make returns. On the path of a coroutine, @p make is called when the
/// context runs.
template <class T, class Make>
void launch(path how, const boost::asio::any_io_executor& executor, attempt<T>& a, Make make,
            bool cancellable = true)
{
    // Type-erased, because with sanitizers each instantiation of a coroutine compiles slowly.
    launch_operation(how, executor, a,
                     std::function<std::invoke_result_t<Make&>()>(std::move(make)), cancellable);
}

}  // namespace turnstile::test

/// Defines a test that runs once for each path, as the variable @p how.
#define TURNSTILE_TEST_BOTH_PATHS(name)                                                            \
    static void name(turnstile::test::path how);                                                   \
    BOOST_AUTO_TEST_CASE(name##_by_a_handler)                                                      \
    {                                                                                              \
        name(turnstile::test::path::handler);                                                      \
    }                                                                                              \
    BOOST_AUTO_TEST_CASE(name##_by_a_coroutine)                                                    \
    {                                                                                              \
        name(turnstile::test::path::coroutine);                                                    \
    }                                                                                              \
    static void name([[maybe_unused]] turnstile::test::path how)

#endif
