// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_ERROR_HPP
#define TURNSTILE_REDIS_ERROR_HPP

#include <boost/system/error_category.hpp>
#include <boost/system/error_code.hpp>
#include <string>
#include <turnstile/error.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {

/**
 * @brief Errors between a program and its Redis server.
 *
 * Errors of locks are in @ref turnstile::errc, for both backends. The values are stable. *Errors of the server* are
 * `wrong_type`, `foreign_layout`, `bad_state`, `missing_permission` and `server_error`.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe.
 */
enum class errc
{
    /// The configuration breaks a rule: a malformed URL, an unknown option, a value out of its range.
    invalid_config = 1,
    /// The server cannot be reached, does not answer, or is not ready yet; the session tries again.
    unreachable = 2,
    /// The server rejects user and password, or requires them: it received none, or is in protected mode.
    wrong_credentials = 3,
    /// The server's ACL denies the user a command, a key or a channel that the session needs.
    missing_permission = 4,
    /// A key of the object contains another program's value of another type.
    wrong_type = 5,
    /// Another version of Turnstile wrote the keys, in a layout that this version cannot read. Or an event was opened
    /// with another event_reset than the first user's.
    foreign_layout = 6,
    /// The name of an object is empty or too long.
    invalid_name = 7,
    /// The server granted a lock with a fencing token that is not above all earlier ones, so it has lost its
    /// memory.
    fence_regressed = 8,
    /// The server is older than Redis 7.0, lacks a feature, or is a Redis Cluster.
    unsupported_server = 9,
    /// The server may or may not have executed the command: the connection broke before the answer came, the script
    /// failed in the middle, or the server refused a repetition of the command.
    unknown_outcome = 10,
    /// The session was closed, or belongs to the process that this one was forked from.
    session_closed = 11,
    /// The server answered with an error that has no code of its own; the text contains it.
    server_error = 12,
    /// Too few replicas acknowledged a grant in time, so the session released it.
    not_replicated = 13,
    /// The stored state cannot be read: a field cannot be parsed as its member's type, or another program has
    /// changed the keys of an object. Or a value cannot be written.
    bad_state = 14,
    /// A semaphore was opened with a capacity that differs from the server's; the log contains both. The option
    /// `adopt_capacity` of @ref mutex_options accepts the server's capacity.
    capacity_mismatch = 15,
    /// One side rejects the other side's certificate.
    untrusted_certificate = 16,
    /// The directory does not contain a semaphore with that name, or no longer.
    no_such_object = 17,
};

/**
 * @brief Kinds of errors, for callers that decide how to react.
 *
 * An error condition, so an error code compares equal to its kind: `if (error == error_kind::temporary)`.
 */
enum class error_kind
{
    /// Waiting may help: the server or the network is not available, or the outcome is unknown.
    temporary = 1,
    /// The configuration of the client or of the server has to be changed.
    configuration = 2,
};

/// The category of @ref errc; its name is `turnstile.redis`.
[[nodiscard]] const boost::system::error_category& redis_category() noexcept;

/// The category of @ref error_kind; its name is `turnstile.redis.kind`.
[[nodiscard]] const boost::system::error_category& redis_error_kind_category() noexcept;

/// Makes an error code of the category @ref redis_category.
[[nodiscard]] inline error_code make_error_code(errc e) noexcept
{
    return {static_cast<int>(e), redis_category()};
}

/// Makes an error condition of the category @ref redis_error_kind_category.
[[nodiscard]] inline boost::system::error_condition make_error_condition(error_kind c) noexcept
{
    return {static_cast<int>(c), redis_error_kind_category()};
}

/**
 * @brief An error with a text: the value, the rule, the server's answer.
 *
 * No text contains a password or the name of a wake channel.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
class redis_error : public system_error
{
public:
    /// Constructs the exception.
    redis_error(errc e, std::string text)
        : system_error(make_error_code(e))
        , text_(std::move(text))
    {
    }

    /// Only the text.
    [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

}  // namespace turnstile::redis

namespace boost::system {

template <>
struct is_error_code_enum<turnstile::redis::errc> : std::true_type
{
};

template <>
struct is_error_condition_enum<turnstile::redis::error_kind> : std::true_type
{
};

}  // namespace boost::system

namespace turnstile::redis {

namespace detail {

class redis_error_category final : public boost::system::error_category
{
public:
    constexpr redis_error_category() noexcept
        : error_category(0x5e11d0a97c3f42b6ULL)
    {
    }

    const char* name() const noexcept override { return "turnstile.redis"; }

    std::string message(int value) const override
    {
        switch (static_cast<errc>(value))
        {
        case errc::invalid_config:
            return "the configuration breaks a rule";
        case errc::unreachable:
            return "the server cannot be reached";
        case errc::wrong_credentials:
            return "the server refuses user and password";
        case errc::missing_permission:
            return "the server's ACL lacks a rule";
        case errc::wrong_type:
            return "a key of the object has a value of another type";
        case errc::foreign_layout:
            return "the keys have the layout of another version, or the event was opened with the "
                   "other event_reset";
        case errc::invalid_name:
            return "the name of the object is empty or too long";
        case errc::fence_regressed:
            return "the server granted the lock with a fencing token that is not above all earlier "
                   "ones";
        case errc::unsupported_server:
            return "the server is older than Redis 7.0, lacks a feature, or is a Redis Cluster";
        case errc::unknown_outcome:
            return "it is unknown whether the server has executed the command";
        case errc::session_closed:
            return "the session is closed";
        case errc::server_error:
            return "the server answered with an error";
        case errc::not_replicated:
            return "too few replicas acknowledged the grant in time";
        case errc::bad_state:
            return "the stored state cannot be read, or a value cannot be written";
        case errc::capacity_mismatch:
            return "the capacity of the semaphore differs from the server's";
        case errc::untrusted_certificate:
            return "one side rejected the other side's certificate";
        case errc::no_such_object:
            return "there is no object with that name";
        }
        return "unknown turnstile.redis error " + std::to_string(value);
    }

    boost::system::error_condition default_error_condition(int value) const noexcept override
    {
        switch (static_cast<errc>(value))
        {
        case errc::unreachable:
        case errc::unknown_outcome:
        case errc::not_replicated:
            return make_error_condition(error_kind::temporary);
        case errc::invalid_config:
        case errc::wrong_credentials:
        case errc::missing_permission:
        case errc::unsupported_server:
        case errc::capacity_mismatch:
        case errc::untrusted_certificate:
        case errc::foreign_layout:
            return make_error_condition(error_kind::configuration);
        case errc::wrong_type:
        case errc::invalid_name:
        case errc::fence_regressed:
        case errc::session_closed:
        case errc::server_error:
        case errc::bad_state:
        case errc::no_such_object:
            break;
        }
        return {value, *this};
    }
};

class redis_error_kind_category_type final : public boost::system::error_category
{
public:
    constexpr redis_error_kind_category_type() noexcept
        : error_category(0x5e11d0a97c3f42b7ULL)
    {
    }

    const char* name() const noexcept override { return "turnstile.redis.kind"; }

    std::string message(int value) const override
    {
        switch (static_cast<error_kind>(value))
        {
        case error_kind::temporary:
            return "trying again later may help";
        case error_kind::configuration:
            return "a configuration has to be changed";
        }
        return "unknown turnstile.redis condition " + std::to_string(value);
    }
};

inline constexpr redis_error_category redis_category_instance{};
inline constexpr redis_error_kind_category_type redis_error_kind_category_instance{};

}  // namespace detail

inline const boost::system::error_category& redis_category() noexcept
{
    return detail::redis_category_instance;
}

inline const boost::system::error_category& redis_error_kind_category() noexcept
{
    return detail::redis_error_kind_category_instance;
}

}  // namespace turnstile::redis

#endif
