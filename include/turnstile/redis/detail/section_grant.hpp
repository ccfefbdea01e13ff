// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_SECTION_GRANT_HPP
#define TURNSTILE_REDIS_DETAIL_SECTION_GRANT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/rerouted_handler.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/redis/fwd.hpp>
#include <turnstile/redis/session.hpp>
#include <type_traits>
#include <utility>

// The parts of a monitor's section that do not depend on the type of the state. As much as possible stands in the
// library, because each source file that includes this header would compile it.

namespace turnstile::redis::detail {

/// Makes a monitor. Throws if the name or the options are invalid.
[[nodiscard]] std::shared_ptr<lock_handle> make_monitor(const session& owner, std::string_view name,
                                                        const mutex_options& options);

/// The key of a monitor's state.
[[nodiscard]] const std::string& state_key_of(const lock_handle& lock) noexcept;

/// The server's name of a condition.
[[nodiscard]] const std::string& key_of(const condition_handle& condition) noexcept;

/// Whether a condition belongs to a lock.
[[nodiscard]] bool is_of(const condition_handle& condition, const lock_handle& lock) noexcept;

/// Waits for a lock, unless the server can execute the proposed transaction. In that case, completes with
/// neither an error nor a grant, and the proposal contains the result. The proposal may be null.
void start_transact(const std::shared_ptr<lock_handle>& lock,
                    const std::shared_ptr<proposal>& proposed, lock_handler handler);

/// The result of the withdrawal of a contribution in a section.
enum class withdrawal
{
    /// The section has made the contribution, and does not commit it.
    uncommitted,
    /// The commit of the section withdraws it.
    at_commit,
    /// The section has withdrawn it before.
    repeated,
    /// It was lost before.
    lost,
};

/// The changes of a running section since the last commit.
class pending_changes
{
public:
    pending_changes();
    pending_changes(const pending_changes&) = delete;
    pending_changes& operator=(const pending_changes&) = delete;
    ~pending_changes();

    /// Sets the state that arrived with the grant, in this program's format.
    void set_loaded(std::map<std::string, std::string> loaded) noexcept;

    /// Notifies a condition.
    void notify(const condition_handle& condition, bool all);

    /// Makes a contribution.
    void contribute(std::shared_ptr<contribution_handle> made);

    /// Withdraws a contribution.
    [[nodiscard]] withdrawal withdraw(const std::shared_ptr<contribution_handle>& handle);

    /// Returns the changes that lead to the state @p now, and forgets them. The fields in @p stored exist.
    [[nodiscard]] section_changes take(const std::map<std::string, std::string>& now,
                                       const std::map<std::string, std::string>& stored);

private:
    std::map<std::string, std::string> loaded_;
    /// Without fields.
    section_changes changes_;
};

/**
 * The lock of a running section: a sequence of grants, because the body may wait. Its release commits the
 * changes that were passed to set_changes(). Without these, the section has failed.
 */
class section_grant
{
public:
    section_grant() noexcept;
    explicit section_grant(grant granted);

    section_grant(section_grant&&) noexcept;
    section_grant& operator=(section_grant&&) noexcept;
    ~section_grant();

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(granted_); }

    /// Whether the lock is held. Once it has returned false, the section commits nothing, because the body
    /// may rely on that.
    [[nodiscard]] bool valid() noexcept;

    /// Triggered when the lock is lost; stays the same across waits.
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept;

    /// The current grant.
    [[nodiscard]] grant& current() noexcept { return granted_; }
    [[nodiscard]] const grant& current() const noexcept { return granted_; }

    /// Replaces the grant after a wait.
    void adopt(grant granted);

    [[nodiscard]] boost::asio::any_io_executor executor() const { return granted_.executor(); }
    /// Sets the changes to commit at the end.
    void set_changes(section_changes changes) noexcept;

    template <class CompletionToken>
    auto async_unlock(CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiation(*this), token, &section_grant::start_commit, without_result());
    }

private:
    /// Releases the grant and commits the changes, in one step; commits nothing if the lock was lost. If this throws, the
    /// section has failed, and its destructor releases the lock.
    static void start_commit(section_grant& owned, done_handler handler);

    grant granted_;
    section_changes changes_;
    bool is_believed_lost_ = false;
};

/// Makes a section_grant from a grant.
struct to_section
{
    section_grant operator()(grant granted) const
    {
        granted.record_delivery();
        return granted ? section_grant(std::move(granted)) : section_grant();
    }
};

/// The handler of a transaction's wait: starts a section if there is a grant. Body returns a bool.
template <class Handler, class Body>
class transaction_handler : public turnstile::detail::section_handler<Handler, section_grant, Body,
                                                                      boost::asio::any_io_executor>
{
    using section_type = turnstile::detail::section_handler<Handler, section_grant, Body,
                                                            boost::asio::any_io_executor>;

public:
    transaction_handler(Handler&& handler, Body&& body,
                        const boost::asio::any_io_executor& executor,
                        std::shared_ptr<const proposal> proposed)
        : section_type(std::move(handler), std::move(body), executor)
        , proposed_(std::move(proposed))
    {
    }

    void operator()(const error_code& error, grant granted)
    {
        if (!error && !granted)
            section_type::complete(proposed_->executed);
        else
            section_type::operator()(error, to_section()(std::move(granted)));
    }

private:
    std::shared_ptr<const proposal> proposed_;
};

/// Starts a transaction: the proposal, or a section with the body.
class initiate_transaction
{
public:
    using executor_type = boost::asio::any_io_executor;

    explicit initiate_transaction(std::shared_ptr<lock_handle> lock) noexcept
        : lock_(std::move(lock))
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_of(*lock_); }

    template <class Handler, class Body>
    void operator()(Handler&& handler, std::optional<proposal> words, Body body) const
    {
        const auto executor = get_executor();
        auto own = turnstile::detail::routed<turnstile::detail::can_post>(
            std::forward<Handler>(handler), executor);
        const auto proposed =
            words ? std::make_shared<proposal>(std::move(*words)) : std::shared_ptr<proposal>();
        start_transact(lock_, proposed,
                       {transaction_handler<decltype(own), Body>(std::move(own), std::move(body),
                                                                 executor, proposed),
                        executor});
    }

private:
    std::shared_ptr<lock_handle> lock_;
};

}  // namespace turnstile::redis::detail

#endif
