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
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/detail/directory.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/initiation.hpp>
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
 * For services that hold units in the name of their clients. A session renews the permits of its @ref async_semaphore,
 * and they end with the session. A permit of a directory has a lease of its own. It survives the process that took it,
 * and each process that knows its id can renew or release it. The id is a secret.
 *
 * A semaphore exists from @ref async_create until @ref async_remove. The server does not delete it when it is unused.
 * Its available units and those of its permits are together at most async_semaphore::max_capacity.
 *
 * @par Waiting
 * @ref async_take does not wait. To wait for units, acquire them from the result of @ref find, and then keep them with
 * @ref async_keep.
 *
 * @par Crashes
 * The lease of a permit does not depend on any process. When it has expired, the next command for the semaphore makes
 * the units available. A session with a waiter sends one when the first lease expires. A call after which a lease
 * expires earlier informs up to eight waiters. If none of their sessions responds, the units are available later, by
 * at most a session's lease. If a process crashes between the grant and @ref async_keep, its units become available
 * when the lease of its session's permit expires.
 *
 * @par What is exact
 * A call is executed once, even if its answer is lost and the session has to send it again. After
 * `errc::unknown_outcome`, it may or may not have been executed. If the *server* loses its memory, the semaphores are
 * as in its last saved state.
 *
 * @par Fairness
 * First in, first out, as with @ref async_semaphore. @ref async_take fails while there are waiters.
 *
 * @par Results and errors
 * An expected result is a `directory_status`. An operation on a name that the directory does not contain yields
 * directory_status::missing. The errors of all operations are:
 *   - `errc::invalid_name` if the name of the semaphore is empty or too long;
 *   - if the session is not connected and its attempt to connect fails, the error of that attempt, see
 *     session::async_ready();
 *   - `errc::unknown_outcome` if the connection broke before the answer came, in each of five attempts; or if the
 *     server refused a repetition (for instance with directory_status::busy): it may still receive the first command;
 *   - `errc::session_closed`, errors of the server.
 *
 * @par Round trips
 * One command for each operation, unless stated otherwise. If the units go to more than 64 waiters, the session sends
 * further commands in the background. If more than 64 permits have expired, a command that reads, or that found too few
 * units, is repeated after one more command for each 64 of them.
 *
 * @par Immediate completion
 * Never.
 *
 * @par Per-Operation Cancellation
 * None: a command that was sent cannot be recalled. The waits of @ref find can be cancelled.
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
     * @param name    1 to 65,536 arbitrary bytes. All keys of a directory lie in one cluster slot.
     * @throws system_error with `errc::invalid_name`.
     */
    semaphore_directory(session& session, std::string_view name);

    semaphore_directory(const semaphore_directory&) = delete;
    semaphore_directory& operator=(const semaphore_directory&) = delete;

    /// Operations in progress continue.
    ~semaphore_directory() = default;

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*directory_);
    }

    /**
     * @brief Creates a semaphore.
     *
     * @param name  the name of the semaphore, 1 to 65,536 arbitrary bytes.
     * @param value the number of available units, from 0 to async_semaphore::max_capacity.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::exists if there is a semaphore with that name, which does not change. directory_status::excess
     * if @p value is out of range.
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
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
     * @brief Removes a semaphore and its permits. Its waiters fail with `errc::no_such_object`.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
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

    /**
     * @brief Reads the numbers of a semaphore.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
     */
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
     * @param name  the name of the semaphore.
     * @param units how many, at least 1.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::excess if the semaphore would have more than async_semaphore::max_capacity units, including
     * those of permits; then nothing changes.
     * @par Errors
     * See the class; also `turnstile::errc::invalid_count` if @p units is less than 1.
     * @par Per-Operation Cancellation, Round trips
     * See the class.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_add(std::string_view name, std::int64_t units, CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::add, std::string(name), units},
                                       std::forward<CompletionToken>(token));
    }

    /**
     * @brief Returns units that were taken for good, unless their semaphore was removed since.
     *
     * @param name          the name of the semaphore.
     * @param units         how many, at least 1.
     * @param fencing_token semaphore_answer::fencing_token of @ref async_take or @ref async_keep.
     * @param token         the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::missing also if another semaphore with that name was created meanwhile; it does not change.
     * Otherwise as with @ref async_add.
     * @par Errors, Per-Operation Cancellation, Round trips
     * As with @ref async_add.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_return(std::string_view name, std::int64_t units, std::uint64_t fencing_token,
                      CompletionToken&& token = {})
    {
        return start<semaphore_answer>({detail::directory_operation::add, std::string(name), units,
                                        std::to_string(fencing_token)},
                                       std::forward<CompletionToken>(token));
    }

    /**
     * @brief Takes units if enough are available and nobody waits.
     *
     * @param name  the name of the semaphore.
     * @param units how many, at least 1.
     * @param terms the permit that holds the units; without a lease, they are taken for good.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * The answer contains the id of the permit and its fencing token. directory_status::busy if too few units are
     * available, or if there are waiters; then nothing changes.
     * @par Errors
     * See the class; also `turnstile::errc::invalid_count` if @p units is less than 1, and
     * `turnstile::errc::invalid_duration` if the lease is negative or above listed_permit_options::longest_lease.
     * @par Per-Operation Cancellation, Round trips
     * See the class.
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
     * @brief Returns the semaphore with this name, for waiting. Does not talk to the server.
     *
     * Its operations fail with `errc::no_such_object` if the directory does not contain the semaphore, or no longer.
     * Its capacity cannot be set: all semaphores of directories have async_semaphore::max_capacity.
     * All calls for a name return the same semaphore object, which exists as long as a caller keeps it.
     * The destruction of that object completes its waits with `operation_aborted`.
     *
     * @throws system_error with `errc::invalid_name`.
     */
    [[nodiscard]] std::shared_ptr<async_semaphore> find(std::string_view name);

    /**
     * @brief Keeps units that were granted through @ref find, passes them to a permit of the directory, or takes them
     * for good.
     *
     * The fencing token stays that of the grant.
     *
     * @param name  the name of the semaphore.
     * @param units the session's permit, with all units of one grant. It is empty afterwards. Units that
     * cannot be kept are released.
     * @param terms as for @ref async_take.
     * @param token the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * @par Errors
     * See the class. `turnstile::errc::lost` if the units were lost before; `turnstile::errc::empty_guard` if @p units
     * is empty, or contains units of several grants; `turnstile::errc::invalid_count` if it contains only a part of a
     * grant; `turnstile::errc::wrong_object` if its semaphore is not the result of @ref find for @p name;
     * `turnstile::errc::invalid_duration` as with @ref async_take. `errc::no_such_object` if the semaphore was removed.
     * `errc::unknown_outcome` also if the server could not be reached until the lease of the session's permit expired.
     * The first command keeps the units, and the second one reads the numbers of the semaphore: if only the second one
     * fails, the units are kept, and the answer still contains the id of the permit.
     * @par Per-Operation Cancellation
     * See the class.
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
            detail::initiation(directory_), token, &detail::start_keep, std::identity(),
            std::move(call), std::move(turnstile::detail::guard_access::grant(units)));
    }

    /**
     * @brief Renews the lease of a permit.
     *
     * @param name   the name of the semaphore.
     * @param permit the id of the permit.
     * @param lease  the new lease, from now on; if empty or 0, the permit's former one.
     * @param token  the completion token.
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::unheld if the semaphore does not have such a permit, or no longer has it.
     * @par Errors
     * See the class; also `turnstile::errc::invalid_duration` as with @ref async_take.
     * @par Per-Operation Cancellation, Round trips
     * See the class.
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

    /**
     * @brief Releases a permit, and grants its units to waiters in their order.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::unheld if the semaphore does not have such a permit, or no longer has it.
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_answer)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_release(std::string_view name, std::string_view permit, CompletionToken&& token = {})
    {
        return start<semaphore_answer>(
            {detail::directory_operation::release, std::string(name), 0, std::string(permit)},
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Releases the permit that has this fencing token. For operators, who do not know its id.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_answer) @endcode
     * directory_status::unheld if the semaphore does not have such a permit, or no longer has it.
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
     */
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
     * An empty @p after lists from the first name on. Semaphores whose keys are damaged are left out.
     *
     * One answer of the server contains the names of the page. The server ends the connection of a session if an
     * answer exceeds its `client-output-buffer-limit` for `pubsub`, which is 32 MB by default. So choose a limit
     * that suits the length of the names.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_page) @endcode
     * @par Errors, Per-Operation Cancellation
     * See the class.
     * @par Round trips
     * One command for the names, and one more for each 50 listed semaphores.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_page)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_list(std::string_view after, std::size_t limit, CompletionToken&& token = {})
    {
        return start<semaphore_page>(
            {detail::directory_operation::list, std::string(after), size_of(limit)},
            std::forward<CompletionToken>(token));
    }

    /**
     * @brief Lists up to @p limit permits, ordered by fencing token, and up to @p limit waiters, in their order.
     *
     * One answer of the server contains the texts of all listed permits; see @ref async_list for its size.
     *
     * @par Completion Signature
     * @code void(error_code, semaphore_detail) @endcode
     * @par Errors, Per-Operation Cancellation, Round trips
     * See the class.
     */
    template <boost::asio::completion_token_for<void(error_code, semaphore_detail)>
                  CompletionToken = boost::asio::deferred_t>
    auto async_detail(std::string_view name, std::size_t limit, CompletionToken&& token = {})
    {
        return start<semaphore_detail>(
            {detail::directory_operation::detail, std::string(name), size_of(limit)},
            std::forward<CompletionToken>(token));
    }

private:
    /// A limit with which a script can compute; no directory has more entries.
    static std::int64_t size_of(std::size_t limit) noexcept
    {
        constexpr std::size_t most = 1U << 30U;
        return static_cast<std::int64_t>(limit < most ? limit : most);
    }

    template <class Result, class CompletionToken>
    auto start(detail::directory_call call, CompletionToken&& token)
    {
        void (*const begin)(const std::shared_ptr<detail::directory_handle>&,
                            detail::directory_call,
                            detail::erased_handler<void(error_code, Result)>) = &detail::start_call;
        return boost::asio::async_initiate<CompletionToken, void(error_code, Result)>(
            detail::initiation(directory_), token, begin, std::identity(), std::move(call));
    }

    std::shared_ptr<detail::directory_handle> directory_;
};

}  // namespace turnstile::redis

#endif
