// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_ERROR_HPP
#define TURNSTILE_ERROR_HPP

#include <boost/system/error_category.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <string>
#include <turnstile/owner_token.hpp>
#include <type_traits>

namespace turnstile {

/// The error type of every operation, as in Boost.Asio.
using error_code = boost::system::error_code;

/// The base of every exception that Turnstile throws.
using system_error = boost::system::system_error;

/**
 * @brief The errors of locks, besides cancellation.
 *
 * A cancelled operation completes with `boost::asio::error::operation_aborted`, like any Asio
 * operation. So does an operation whose object is destroyed while it waits. The values are stable.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe.
 */
enum class errc
{
    /// The token or guard does not hold the lock.
    not_owner = 1,
    /// The object was closed, so nothing more can be acquired.
    closed = 2,
    /// The number of units, arrivals or attempts is below 1, or above what the object or permit can ever
    /// have; or another number is out of its range.
    invalid_count = 3,
    /// More units were released than are in use, or more arrivals counted than are missing.
    over_release = 4,
    /// The operation needs a guard or permit that is not empty.
    empty_guard = 5,
    /// The guard, permit, condition or contribution belongs to another object.
    wrong_object = 6,
    /// The lock, the permit or the attempt of a job was lost. Local locks and permits are never lost.
    lost = 7,
    /// All participants have dropped out of the barrier.
    no_participants = 8,
    /// The same object was passed more than once.
    duplicate = 9,
    /// The predicate of a wait threw an exception.
    predicate_threw = 10,
    /// A duration is negative, or outside of what the operation accepts.
    invalid_duration = 11,
    /// The payload of a job is empty, or larger than its queue accepts; or its deduplication id is
    /// too long.
    invalid_payload = 12,
    /// The queue has no such job.
    unknown_job = 13,
};

/// The category of @ref errc; its name is `turnstile`.
[[nodiscard]] const boost::system::error_category& turnstile_category() noexcept;

/// Makes an error code of the category @ref turnstile_category.
[[nodiscard]] inline error_code make_error_code(errc e) noexcept
{
    return {static_cast<int>(e), turnstile_category()};
}

/**
 * @brief Thrown by `leave()` and by adopting, if the token does not hold the lock.
 *
 * Its code is @ref errc::not_owner. Its text names both tokens:
 * `Owner token mismatch. Expected 1 but received 7`.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class owner_mismatch : public system_error
{
public:
    /// Constructs the exception. If @p expected is empty, no token holds the lock.
    owner_mismatch(owner_token expected, owner_token received)
        : system_error(make_error_code(errc::not_owner))
        , expected_(expected)
        , received_(received)
        , text_(text(expected, received))
    {
    }

    /// The text, which names both tokens.
    [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

    /// The token that holds the lock; empty if none does.
    [[nodiscard]] owner_token expected() const noexcept { return expected_; }

    /// The token that was passed to the operation.
    [[nodiscard]] owner_token received() const noexcept { return received_; }

private:
    static std::string text(owner_token expected, owner_token received)
    {
        return "Owner token mismatch. Expected " +
               (expected ? std::to_string(expected.value()) : std::string("none")) +
               " but received " + std::to_string(received.value());
    }

    owner_token expected_;
    owner_token received_;
    std::string text_;
};

namespace detail {

class turnstile_error_category final : public boost::system::error_category
{
public:
    constexpr turnstile_error_category() noexcept
        : error_category(0x7d0c51ce9a3b4e17ULL)
    {
    }

    const char* name() const noexcept override { return "turnstile"; }

    std::string message(int value) const override
    {
        switch (static_cast<errc>(value))
        {
        case errc::not_owner:
            return "the token or guard does not own the lock";
        case errc::closed:
            return "the object is closed";
        case errc::invalid_count:
            return "the number must be at least 1 and at most what is possible";
        case errc::over_release:
            return "more was released, or has arrived, than was missing";
        case errc::empty_guard:
            return "the operation needs a guard, permit or job that is still held";
        case errc::wrong_object:
            return "the guard or permit belongs to another object";
        case errc::lost:
            return "the lock, permit or job was lost while it was held";
        case errc::no_participants:
            return "every participant has left the barrier";
        case errc::duplicate:
            return "the same object was given more than once";
        case errc::predicate_threw:
            return "the predicate of the wait threw an exception";
        case errc::invalid_duration:
            return "a duration is negative, or outside of what the operation accepts";
        case errc::invalid_payload:
            return "the payload is empty, or it or the deduplication id is larger than the queue "
                   "accepts";
        case errc::unknown_job:
            return "the queue has no such job";
        }
        return "unknown turnstile error " + std::to_string(value);
    }
};

inline constexpr turnstile_error_category error_category_instance{};

}  // namespace detail

inline const boost::system::error_category& turnstile_category() noexcept
{
    return detail::error_category_instance;
}

}  // namespace turnstile

namespace boost::system {

template <>
struct is_error_code_enum<turnstile::errc> : std::true_type
{
};

}  // namespace boost::system

#endif
