// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_SECTION_GRANT_HPP
#define TURNSTILE_REDIS_DETAIL_SECTION_GRANT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/detail/section.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/redis/session.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {
class mutex_options;
}

// What sections of monitors are made of, as far as it does not depend on the type of the state.

namespace turnstile::redis::detail {

/// What a monitor is. Throws if it cannot have the name or the options.
[[nodiscard]] std::shared_ptr<lock_handle> make_monitor(const session& owner, std::string_view name,
                                                        const mutex_options& options);

/// The key of a monitor's state.
[[nodiscard]] const std::string& state_key_of(const lock_handle& lock) noexcept;

/// The name that users gave to a condition, and the one that the server knows.
[[nodiscard]] const std::string& name_of(const condition_handle& condition) noexcept;
[[nodiscard]] const std::string& key_of(const condition_handle& condition) noexcept;

/// Whether a condition belongs to a lock.
[[nodiscard]] bool is_of(const condition_handle& condition, const lock_handle& lock) noexcept;

/// Gives back what a grant owns, and says something as well: all of it, or nothing if the lock was lost.
void start_commit(grant& owned, last_words words, leave_handler handler);

/// Waits for a lock, unless the server can do at once what is proposed: then it completes without an error and
/// without a grant, and the proposal says whether it was carried out. There may be none.
void start_transact(const std::shared_ptr<lock_handle>& lock,
                    const std::shared_ptr<proposal>& proposed, lock_handler handler);

/**
 * What the body of a section owns: one grant after another, since it may sleep. What it has to say at the end
 * is said when it is given back; if it is not, nothing is.
 */
class section_grant
{
public:
    section_grant() noexcept = default;

    explicit section_grant(grant granted)
        : loss_(std::make_shared<boost::asio::cancellation_signal>())
    {
        adopt(std::move(granted));
    }

    section_grant(section_grant&&) noexcept = default;
    section_grant& operator=(section_grant&&) noexcept = default;
    ~section_grant() = default;

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(granted_); }

    /// Whether it is still owned. If it once was not, nothing will be said: somebody may believe that now.
    [[nodiscard]] bool valid() noexcept
    {
        is_believed_lost_ = is_believed_lost_ || !granted_.valid();
        return !is_believed_lost_;
    }

    /// Triggered when any of its grants is lost.
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept
    {
        return loss_ ? loss_->slot() : boost::asio::cancellation_slot();
    }

    /// The grant of the moment.
    [[nodiscard]] grant& current() noexcept { return granted_; }
    [[nodiscard]] const grant& current() const noexcept { return granted_; }

    /// Goes on with another grant.
    void adopt(grant granted)
    {
        granted_ = std::move(granted);
        is_believed_lost_ = false;
        granted_.lost().assign(
            [weak = std::weak_ptr(loss_)](boost::asio::cancellation_type type)
            {
                if (const auto loss = weak.lock())
                    loss->emit(type);
            });
    }

    /// What is to be said at the end.
    void say(last_words words) { words_ = std::move(words); }

    template <class CompletionToken>
    auto async_unlock(CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiate_commit(*this), token);
    }

private:
    class initiate_commit
    {
    public:
        using executor_type = boost::asio::any_io_executor;

        explicit initiate_commit(section_grant& owned) noexcept
            : owned_(&owned)
        {
        }

        [[nodiscard]] executor_type get_executor() const { return owned_->granted_.executor(); }

        template <class Handler>
        void operator()(Handler&& handler) const
        {
            const auto executor = get_executor();
            start_commit(owned_->granted_,
                         owned_->is_believed_lost_ ? last_words() : std::move(owned_->words_),
                         {std::forward<Handler>(handler), executor});
        }

    private:
        section_grant* owned_;
    };

    std::shared_ptr<boost::asio::cancellation_signal> loss_;
    grant granted_;
    last_words words_;
    bool is_believed_lost_ = false;
};

/// What waits for a lock in order to run a section: makes what the section owns of the grant.
struct to_section
{
    section_grant operator()(grant granted) const
    {
        granted.arrive();
        return granted ? section_grant(std::move(granted)) : section_grant();
    }
};

/// What a transaction waits with: begins a section if there is a grant. The Body returns a bool.
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
            section_type::complete(proposed_->carried_out);
        else
            section_type::operator()(error, to_section()(std::move(granted)));
    }

private:
    std::shared_ptr<const proposal> proposed_;
};

/// Starts a transaction: what is proposed, or a section with the body.
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
        const auto proposed =
            words ? std::make_shared<proposal>(std::move(*words)) : std::shared_ptr<proposal>();
        start_transact(lock_, proposed,
                       {transaction_handler<std::decay_t<Handler>, Body>(
                            std::decay_t<Handler>(std::forward<Handler>(handler)), std::move(body),
                            executor, proposed),
                        executor});
    }

private:
    std::shared_ptr<lock_handle> lock_;
};

/// What a section that sleeps waits with: it has the lock and the state again before its handler is called,
/// a `void(error_code, std::cv_status)`.
template <class Section, class Handler>
class waking_handler
{
public:
    waking_handler(Section& section, Handler handler)
        : section_(&section)
        , handler_(std::move(handler))
    {
    }

    void operator()(const error_code& error, grant granted)
    {
        const auto [failure, status] = section_->wake(error, std::move(granted));
        std::move(handler_)(failure, status);
    }

    [[nodiscard]] const Handler& handler() const noexcept { return handler_; }

private:
    Section* section_;
    Handler handler_;
};

}  // namespace turnstile::redis::detail

/// What is associated with the handler inside is associated with it.
template <template <class, class> class Associator, class Section, class Handler,
          class DefaultCandidate>
struct boost::asio::associator<
    Associator, turnstile::redis::detail::waking_handler<Section, Handler>, DefaultCandidate>
    : Associator<Handler, DefaultCandidate>
{
    using waking_type = turnstile::redis::detail::waking_handler<Section, Handler>;

    static typename Associator<Handler, DefaultCandidate>::type get(
        const waking_type& waking) noexcept
    {
        return Associator<Handler, DefaultCandidate>::get(waking.handler());
    }

    static auto get(const waking_type& waking, const DefaultCandidate& candidate) noexcept
        -> decltype(Associator<Handler, DefaultCandidate>::get(waking.handler(), candidate))
    {
        return Associator<Handler, DefaultCandidate>::get(waking.handler(), candidate);
    }
};

#endif
