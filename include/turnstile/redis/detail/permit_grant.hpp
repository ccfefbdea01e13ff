// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_PERMIT_GRANT_HPP
#define TURNSTILE_REDIS_DETAIL_PERMIT_GRANT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <utility>

namespace turnstile::redis::detail {

class permit_share;

/// Units of a pool that are held through a session; stored by a permit.
class permit_grant
{
public:
    permit_grant() noexcept = default;

    /// Holds all units of a grant.
    explicit permit_grant(grant granted);

    explicit permit_grant(std::shared_ptr<permit_share> share) noexcept
        : share_(std::move(share))
    {
    }

    permit_grant(permit_grant&& other) noexcept = default;
    permit_grant& operator=(permit_grant&& other) noexcept
    {
        release();
        share_ = std::move(other.share_);
        return *this;
    }
    ~permit_grant() { release(); }

    [[nodiscard]] std::ptrdiff_t count() const noexcept;
    [[nodiscard]] bool valid() const noexcept;
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept;
    [[nodiscard]] std::uint64_t fencing_token() const noexcept;
    [[nodiscard]] boost::asio::any_io_executor executor() const;
    [[nodiscard]] bool is_of_same_object(const permit_grant& other) const noexcept;
    [[nodiscard]] permit_grant split(std::ptrdiff_t units);
    void merge(permit_grant&& other);

    /// Detaches the units from the permit, as if they were taken for good, in the background.
    void forget() noexcept;

    /// Passes the units to a permit of a directory, which @p heir describes as `ID LEASE CLIENT`.
    /// If @p heir is empty, the units are taken for good. The units have to be all those of
    /// one grant of the pool with this key.
    static void start_keep(permit_grant owned, std::string_view key, std::string heir,
                           erased_handler<void(error_code)> handler);

    /// Releases the units in the background.
    void release() noexcept;

    template <class CompletionToken>
    static auto async_release(permit_grant& owned, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiation(owned), token, &permit_grant::start_release, without_result());
    }

private:
    /// If this throws, the permit keeps the units whose release has not started.
    static void start_release(permit_grant& owned, erased_handler<void(error_code)> handler);

    std::shared_ptr<permit_share> share_;
};

}  // namespace turnstile::redis::detail

#endif
