// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CALL_REQUEST_HPP
#define TURNSTILE_DETAIL_CALL_REQUEST_HPP

#include <boost/throw_exception.hpp>
#include <turnstile/detail/start_request.hpp>
#include <turnstile/detail/waiter.hpp>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

// The requests (see wait_operation.hpp) that never wait and do not acquire anything.

namespace turnstile::detail {

/// Calls a function with an object and the attempt, in which it stores an outcome or a number. The
/// object has an executor. @p Result is void, or the type of the number.
template <class Result, class Object, class Call>
class call_request
{
public:
    using result_type = Result;
    static constexpr bool never_waits = true;

    /// @p name begins the text of an exception, if it is not null.
    call_request(Object& object, Call call, const char* name) noexcept
        : object_(&object)
        , call_(call)
        , name_(name)
    {
    }

    [[nodiscard]] auto executor() const { return object_->get_executor(); }

    bool try_start(attempt_base& attempt) noexcept
    {
        call_(*object_, attempt);
        return true;
    }

    static Result finish(attempt_base& attempt) noexcept
        requires(!std::is_void_v<Result>)
    {
        return static_cast<Result>(attempt.value);
    }

    [[noreturn]] void throw_error(const error_code& error, const attempt_base& /*attempt*/) const
    {
        boost::throw_exception(name_ != nullptr ? system_error(error, name_) : system_error(error));
    }

private:
    Object* object_;
    [[no_unique_address]] Call call_;
    const char* name_;
};

/// Starts such a request with a token, or leaves the start to co_await.
template <class Result = void, class Object, class Call, class CompletionToken>
auto start_call(Object& object, Call call, CompletionToken&& token, const char* name = nullptr)
{
    return detail::start_request(call_request<Result, Object, Call>(object, call, name),
                                 std::forward<CompletionToken>(token));
}

}  // namespace turnstile::detail

#endif
