// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/throw_exception.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <utility>

#include "redis/objects/lock_support.hpp"
#include "redis/session/gate_engine.hpp"
#include "redis/session/session_core.hpp"

// Events, latches and barriers.

namespace turnstile::redis {

namespace detail {

namespace {

/// Makes a gate at which @p number have to arrive, from @p least to latch::max_count. Throws if the name or the number is
/// invalid.
std::shared_ptr<gate_handle> make_gate(const session& owner, const std::string& kind,
                                       std::string_view name, std::ptrdiff_t number,
                                       std::ptrdiff_t least, std::chrono::milliseconds keep)
{
    check_name(name);
    // The scripts count larger numbers than that of a latch inexactly.
    if (number < least || number > latch::max_count)
        boost::throw_exception(system_error(
            turnstile::errc::invalid_count,
            kind + " of " + std::to_string(number) + ", at least " + std::to_string(least) +
                " and at most " + std::to_string(latch::max_count) + " are possible"));
    const auto& core = session_access::core(owner);
    gate_options options;
    options.keys = gate_keys(core->settings.prefix, kind, name);
    options.number = number;
    options.lease = core->settings.lease;
    options.idle = core->settings.idle_time;
    options.keep = keep;
    return std::make_shared<gate_handle>(core, std::string(name), std::move(options));
}

}  // namespace

void start_gate_call(const std::shared_ptr<gate_handle>& gate, gate_call what,
                     std::int64_t arrivals, time_limit limit, count_handler handler)
{
    const auto operation =
        std::make_shared<gate_operation_state>(gate, what, arrivals, limit, std::move(handler));
    if (arrivals < 1)
    {
        operation->done.complete(turnstile::errc::invalid_count, 0);
        return;
    }
    if (operation->waits())
        operation->done.on_cancel(
            [weak = std::weak_ptr(operation)]
            {
                if (const auto cancelled = weak.lock())
                    cancelled->gate->core->post([cancelled](session_engine& engine)
                                                { engine.gates().cancel(cancelled); });
            });
    if (!gate->core->post(operation->done,
                          [operation](session_engine& engine) { engine.gates().start(operation); }))
        operation->done.complete(errc::session_closed, 0);
}

void forget(const std::shared_ptr<gate_handle>& gate) noexcept
{
    gate->core->post([gate](session_engine& engine) { engine.gates().forget(*gate); });
}

boost::asio::any_io_executor executor_of(const gate_handle& gate) noexcept
{
    return gate.core->fallback();
}

const std::string& name_of(const gate_handle& gate) noexcept
{
    return gate.name;
}

}  // namespace detail

namespace {

// A pool with at most one available unit, however often the event is set; see lua/pool.
constexpr std::int64_t capacity = std::int64_t(1) << 28U;

}  // namespace

event::event(session& session, std::string_view name, event_reset reset, bool is_set)
    : pool_(reset == event_reset::automatic
                ? detail::make_pool(session, "event", name, {},
                                    {capacity, is_set ? capacity - 1 : capacity})
                : nullptr)
    , gate_(pool_ ? nullptr
                  : detail::make_gate(session, "event", name, is_set ? 0 : 1, 0,
                                      std::chrono::milliseconds(0)))
{
}

event::~event()
{
    if (pool_)
        detail::forget(pool_);
    else
        detail::forget(gate_);
}

latch::latch(session& session, std::string_view name, std::ptrdiff_t count)
    : gate_(detail::make_gate(session, "latch", name, count, 0, memory))
{
}

barrier::barrier(session& session, std::string_view name, std::ptrdiff_t participants)
    : gate_(detail::make_gate(session, "barrier", name, participants, 1, memory))
{
}

}  // namespace turnstile::redis
