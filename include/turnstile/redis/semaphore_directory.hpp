// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_SEMAPHORE_DIRECTORY_HPP
#define TURNSTILE_REDIS_SEMAPHORE_DIRECTORY_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/detail/directory.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace turnstile::redis {

/**
 * @brief Named semaphores that are created, listed and removed, and whose permits belong to no session.
 *
 * @code
 * turnstile::redis::semaphore_directory printers{session, "printers"};
 * co_await printers.async_create("laser", 2);
 *
 * const turnstile::redis::listed_permit_options terms{std::chrono::seconds(30), "host-7"};
 * const auto taken = co_await printers.async_take("laser", 1, terms);
 * if (taken.status == turnstile::redis::directory_status::done)
 *     co_await other_process.async_renew("laser", taken.permit, std::nullopt);
 * @endcode
 *
 * For services that hold units in the name of others. A permit of @ref async_semaphore is renewed by its session, and
 * ends with it. A permit of a directory has a lease of its own: it survives the process that took it, and each process
 * that knows its id can renew or release it. The id is a secret.
 *
 * A semaphore exists from @ref async_create until @ref async_remove. The server does not delete it when it is unused. It
 * has up to async_semaphore::max_capacity units, available ones and those of permits.
 *
 * @par Waiting
 * @ref async_take does not wait. Wait for units with @ref find, and then keep them with @ref async_keep.
 *
 * @par What is exact
 * A call is executed once, even if its answer is lost and it has to be sent again. After errc::unknown_outcome, it may or
 * may not have been executed. If the *server* loses its memory, the semaphores are as in its last saved state.
 *
 * @par Fairness
 * First in, first out, as with @ref async_semaphore. @ref async_take fails while there are waiters.
 *
 * @par Errors
 * Expected results are a @ref directory_status. Errors of all operations: `errc::unreachable` after a failed attempt to
 * connect, or its more specific error; `errc::unknown_outcome`, `errc::session_closed`, `errc::wrong_type`,
 * `errc::foreign_layout`, `errc::missing_permission`, `errc::server_error`, `errc::bad_state`. `errc::invalid_name` if
 * the name of a semaphore is empty or too long.
 *
 * @par Round trips
 * One command for each operation, unless stated otherwise.
 *
 * @par Immediate completion, Per-Operation Cancellation
 * Never; none.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class semaphore_directory
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /**
     * @brief Names a directory; does not talk to the server.
     *
     * @param session its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes. All keys of a directory lie in one slot of a cluster.
     * @throws system_error with `errc::invalid_name`.
     */
    semaphore_directory(session& session, std::string_view name);

    semaphore_directory(const semaphore_directory&) = delete;
    semaphore_directory& operator=(const semaphore_directory&) = delete;

    /// Operations in progress continue.
    ~semaphore_directory();

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept;

    /**
     * @brief Creates a semaphore.
     *
     * directory_status::exists if there is one with that name, which does not change. directory_status::excess unless
     * @p value is 0 to async_semaphore::max_capacity.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_create(std::string_view name, std::int64_t value, CompletionToken&& token = {})
    {
        return start<semaphore_answer>(
            {detail::directory_operation::create, std::string(name), value},
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Removes a semaphore and its permits. Its waiters fail with errc::no_such_object.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * @par Complexity
     * Linear in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_remove(std::string_view name, CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::remove, std::string(name)},
                                       std::forward<CompletionToken>(token));
    }

    /// Reads the state of a semaphore. Completion signature `void(error_code, semaphore_answer)`.
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_read(std::string_view name, CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::read, std::string(name)},
                                       std::forward<CompletionToken>(token));
    }

    /**
     * @brief Adds units, and grants them to waiters in their order.
     *
     * directory_status::excess if the semaphore would have more than async_semaphore::max_capacity units, those of permits
     * included; then nothing changes.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_add(std::string_view name, std::int64_t units, CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::add, std::string(name), units},
                                       std::forward<CompletionToken>(token));
    }

    /**
     * @brief Takes units if enough are available and nobody waits; directory_status::busy otherwise.
     *
     * @param name  the name of the semaphore.
     * @param units how many.
     * @param terms the permit that holds the units; without a lease, they are taken for good.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * The answer contains the id of the permit and its fencing token.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_take(std::string_view name, std::int64_t units, const listed_permit_options& terms,
                    CompletionToken&& token = {})
    {
        return start<semaphore_answer>(
            {detail::directory_operation::take, std::string(name), units, {}, terms},
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief The semaphore, for waiting.
     *
     * Its operations fail with errc::no_such_object if the directory does not contain it, or no longer. All callers share
     * one object as long as one of them has it.
     *
     * @throws system_error with `errc::invalid_name`.
     */
    [[nodiscard]] std::shared_ptr<async_semaphore> find(std::string_view name);

    /**
     * @brief Keeps units that were granted through @ref find: for a permit of the directory, or for good.
     *
     * The fencing token stays that of the grant.
     *
     * @param name  the name of the semaphore.
     * @param units the permit of the session, which must not have been split. It is empty afterwards.
     * @param terms as for @ref async_take.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * @par Errors
     * Also `turnstile::errc::lost` if the units were lost before, and `turnstile::errc::empty_guard`.
     * @par Round trips
     * Two commands.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_keep(std::string_view name, async_semaphore::permit_type& units,
                    const listed_permit_options& terms, CompletionToken&& token = {})
    {
        detail::directory_call call{
            detail::directory_operation::keep, std::string(name), units.count(), {}, terms};
        return boost::asio::async_initiate<CompletionToken, void(error_code, semaphore_answer)>(
            initiate<semaphore_answer>(directory_), token, std::move(call),
            std::move(turnstile::detail::guard_access::grant(units)));
    }

    /**
     * @brief Lets a permit last for @p lease from now on, or for as long as at first. directory_status::unheld if the
     * semaphore has no such permit.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_renew(std::string_view name, std::string_view permit,
                     std::optional<std::chrono::milliseconds> lease, CompletionToken&& token = {})
    {
        const listed_permit_options terms{lease.value_or(std::chrono::milliseconds(0)), {}};
        return start<semaphore_answer>(
            {detail::directory_operation::renew, std::string(name), 0, std::string(permit), terms},
            std::forward<CompletionToken>(token));
    }

    /// Releases a permit; directory_status::unheld if the semaphore has no such permit. Completion signature
    /// `void(error_code, semaphore_answer)`.
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_release(std::string_view name, std::string_view permit, CompletionToken&& token = {})
    {
        return start<semaphore_answer>(
            {detail::directory_operation::release, std::string(name), 0, std::string(permit)},
            std::forward<CompletionToken>(token));
    }

    /// Releases the permit with a fencing token, for operators; otherwise like @ref async_release.
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_free(std::string_view name, std::uint64_t fencing_token,
                    CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::free, std::string(name), 0,
                                        std::to_string(fencing_token)},
                                       std::forward<CompletionToken>(token));
    }

    /**
     * @brief Lists up to @p limit semaphores whose names are greater than @p after, in the order of their bytes.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_page) @endcode
     * @par Round trips
     * Two commands.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_page)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_list(std::string_view after, std::size_t limit, CompletionToken&& token = {})
    {
        return start<semaphore_page>({detail::directory_operation::list, std::string(after),
                                      static_cast<std::int64_t>(limit)},
                                     std::forward<CompletionToken>(token));
    }

    /// Lists up to @p limit permits, by their fencing tokens, and waiters, in their order. Completion signature
    /// `void(error_code, semaphore_detail)`.
    template <boost::asio::completion_token_for<void(error_code, semaphore_detail)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_detail(std::string_view name, std::size_t limit, CompletionToken&& token = {})
    {
        return start<semaphore_detail>({detail::directory_operation::detail, std::string(name),
                                        static_cast<std::int64_t>(limit)},
                                       std::forward<CompletionToken>(token));
    }

private:
    template <class Result>
    class initiate
    {
    public:
        using executor_type = semaphore_directory::executor_type;

        explicit initiate(std::shared_ptr<detail::directory_handle> directory) noexcept
            : directory_(std::move(directory))
        {
        }

        [[nodiscard]] executor_type get_executor() const noexcept
        {
            return detail::executor_of(*directory_);
        }

        template <class Handler>
        void operator()(Handler&& handler, detail::directory_call call) const
        {
            detail::start_call(directory_, std::move(call),
                               detail::erased_handler<void(error_code, Result)>(
                                   std::forward<Handler>(handler), get_executor()));
        }

        template <class Handler>
        void operator()(Handler&& handler, detail::directory_call call,
                        detail::permit_grant units) const
        {
            detail::start_keep(directory_, std::move(call), std::move(units),
                               {std::forward<Handler>(handler), get_executor()});
        }

    private:
        std::shared_ptr<detail::directory_handle> directory_;
    };

    template <class Result, class CompletionToken>
    auto start(detail::directory_call call, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            initiate<Result>(directory_), token, std::move(call));
    }

    std::shared_ptr<detail::directory_handle> directory_;
};

}  // namespace turnstile::redis

#endif
