// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_TRANSACTION_BODY_HPP
#define TURNSTILE_DETAIL_TRANSACTION_BODY_HPP

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/system/errc.hpp>
#include <boost/throw_exception.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <turnstile/detail/name_of_member.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/error.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>

// A transaction as the body of a section. Every monitor can execute transactions so; the local one
// always does.

namespace turnstile::detail {

/// Throws an error: the sum is not a value of the member's type.
template <class T, class M>
[[noreturn]] void refuse_sum(M T::* member, M before, bool falls, std::uint64_t amount)
{
    const std::string_view name = detail::name_of_member<T>(member);
    boost::throw_exception(
        system_error(make_error_code(boost::system::errc::result_out_of_range),
                     (name.empty() ? "a member" : "member '" + std::string(name) + '\'') + ": " +
                         std::to_string(before) + (falls ? " - " : " + ") + std::to_string(amount) +
                         " is not between " + std::to_string(std::numeric_limits<M>::min()) +
                         " and " + std::to_string(std::numeric_limits<M>::max())));
}

/// The value of a member after an addition.
template <class T, class M, class Amount>
[[nodiscard]] M sum_of(M T::* member, M before, Amount amount)
{
    using wide = std::uint64_t;
    // The difference of two 64-bit numbers fits in 64 bits without a sign; other results are modulo 2^64.
    const bool falls = std::is_signed_v<Amount> && amount < Amount{};
    const wide by = falls ? wide{0} - static_cast<wide>(amount) : static_cast<wide>(amount);
    const wide room =
        falls ? static_cast<wide>(before) - static_cast<wide>(std::numeric_limits<M>::min())
              : static_cast<wide>(std::numeric_limits<M>::max()) - static_cast<wide>(before);
    if (by > room)
        detail::refuse_sum(member, before, falls, by);
    return static_cast<M>(falls ? static_cast<wide>(before) - by : static_cast<wide>(before) + by);
}

/// The condition that a transaction waits for; nullptr if it does not wait.
template <class... Steps>
[[nodiscard]] auto waits_on(const std::tuple<Steps...>& steps) noexcept
{
    if constexpr ((is_wait<Steps> || ...))
    {
        constexpr std::array is_one{is_wait<Steps>...};
        constexpr auto place = std::find(is_one.begin(), is_one.end(), true) - is_one.begin();
        return std::get<place>(steps).condition;
    }
    else
        return nullptr;
}

/// A body that executes a transaction. It returns whether the requirements held.
template <class Transaction>
class transaction_body : public made_by_library
{
    using state_type = typename Transaction::value_type;
    using steps_type =
        std::remove_cvref_t<decltype(transaction_access::steps(std::declval<Transaction&>()))>;

    static constexpr bool waits =
        !std::is_null_pointer_v<decltype(detail::waits_on(std::declval<const steps_type&>()))>;

public:
    explicit transaction_body(Transaction what)
        : steps_(std::move(transaction_access::steps(what)))
    {
    }

    /// Throws if a condition belongs to another monitor, whether the requirements hold or not.
    template <class Section>
    auto operator()(Section& section)
    {
        std::apply([&](const auto&... each) { (check(each, section), ...); }, steps_);
        if constexpr (waits)
            return wait(section);
        else
            return execute_if_possible(section);
    }

private:
    template <class Section>
    boost::asio::awaitable<bool> wait(Section& section)
    {
        const auto holds = [this](const state_type& state) { return do_hold(state); };
        co_await section.async_wait(*detail::waits_on(steps_), holds, boost::asio::deferred);
        execute(section);
        co_return true;
    }

    template <class Section>
    bool execute_if_possible(Section& section)
    {
        const bool holds = do_hold(*section);
        if (holds)
            execute(section);
        return holds;
    }

    [[nodiscard]] bool do_hold(const state_type& state) const
    {
        return std::apply([&](const auto&... each) { return (does_hold(each, state) && ...); },
                          steps_);
    }

    template <class Section>
    void execute(Section& section)
    {
        add<0>(*section);
        // The additions can fail, so they come first. After them, the steps can be moved from.
        std::apply([&](auto&... each) { (assign(each, *section), ...); }, steps_);
        std::apply([&](const auto&... each) { (notify(each, section), ...); }, steps_);
    }

    // The functions for one step do nothing for a step of another kind.

    template <class Step, class Section>
    static void check(const Step& step, const Section& section)
    {
        if constexpr (requires { step.condition; })
            section.require_own(*step.condition);
    }

    template <class Step>
    static bool does_hold(const Step& step, const state_type& state)
    {
        if constexpr (requires { typename Step::compare_type; })
            return typename Step::compare_type()(state.*step.member, step.value);
        else
            return true;
    }

    template <class Step>
    static void assign(Step& step, state_type& state)
    {
        // A requirement has a value, too.
        if constexpr (requires { step.value; } && !requires { typename Step::compare_type; })
            state.*step.member = std::move(step.value);
    }

    template <class Step, class Section>
    static void notify(const Step& step, Section& section)
    {
        if constexpr (requires { step.all; })
        {
            if (step.all)
                section.notify_all(*step.condition);
            else
                section.notify_one(*step.condition);
        }
    }

    /// Performs the additions from a step on. If one fails, none is performed.
    template <std::size_t index>
    void add(state_type& state)
    {
        if constexpr (index < std::tuple_size_v<steps_type>)
        {
            auto& step = std::get<index>(steps_);
            if constexpr (requires { step.amount; })
            {
                auto& number = state.*step.member;
                const auto before = number;
                number = detail::sum_of(step.member, before, step.amount);
                try
                {
                    add<index + 1>(state);
                }
                catch (...)
                {
                    number = before;
                    throw;
                }
            }
            else
                add<index + 1>(state);
        }
    }

    steps_type steps_;
};

}  // namespace turnstile::detail

#endif
