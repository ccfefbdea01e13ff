// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_SECTION_WAIT_HPP
#define TURNSTILE_REDIS_DETAIL_SECTION_WAIT_HPP

#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <turnstile/detail/bound_completion.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

namespace turnstile::redis::detail {

/// One wait inside a wait for a predicate of the state, see turnstile::detail::predicate_wait.
template <class Section, bool Timed>
class section_wait
{
public:
    static constexpr bool is_timed = Timed;

    section_wait(Section& section, std::shared_ptr<condition_handle> condition,
                 const std::optional<std::chrono::steady_clock::time_point>& limit) noexcept
        : section_(&section)
        , condition_(std::move(condition))
        , limit_(limit)
    {
    }

    [[nodiscard]] error_code check() const noexcept { return section_->check(*condition_); }

    template <class Self>
    void start(Self& self) const
    {
        // The members move away together with the handler.
        Section& section = *section_;
        const auto condition = condition_;
        const auto limit = limit_ ? to_time_limit(*limit_) : time_limit();
        section_changes changes;
        try
        {
            changes = section.take_changes();
        }
        catch (...)
        {
            // A container of the state may throw anything.
            using done_type = turnstile::detail::bound_completion<Self, error_code, std::cv_status>;
            const auto executor = self.get_executor();
            boost::asio::post(executor, done_type(std::move(self), make_error_code(errc::bad_state),
                                                  std::cv_status::no_timeout));
            return;
        }
        section.wait_once(condition, limit, std::move(changes), std::move(self));
    }

private:
    Section* section_;
    std::shared_ptr<condition_handle> condition_;
    std::optional<std::chrono::steady_clock::time_point> limit_;
};

}  // namespace turnstile::redis::detail

#endif
