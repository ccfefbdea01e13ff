// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/gate_engine.hpp"

#include <boost/asio/error.hpp>
#include <turnstile/redis/error.hpp>

#include "redis/session/error_of.hpp"
#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

gate_engine::gate_engine(const boost::asio::any_io_executor& strand, connection& wire,
                         std::uint64_t nonce, std::string wake_prefix, std::int64_t drift,
                         engine_owner& who)
    : client_engine(gate_client(nonce, std::move(wake_prefix), drift), wire, who)
    , strand_(strand)
{
}

// --- operations ---------------------------------------------------------------------------------

void gate_engine::start(const operation& what)
{
    const bool only_reads = what->only_reads();
    if (const error_code why = owner_->why_refused(only_reads))
        return finish(what, why, 0);
    gate_handle& gate = *what->gate;
    if (gate.forgotten)
        return finish(what, boost::asio::error::operation_aborted, 0);
    if (gate.id == 0)
        gate.id = client_.open_gate(gate.options);
    what->request = client_.begin(boot_time(), gate.id, only_reads ? gate_call::read : what->what,
                                  what->arrivals);
    operations_.emplace(what->request, what);
    if (what->waits())
        gate.waits.insert(what->request);
    if (const auto limit = what->limit; limit && !only_reads)
    {
        what->timer = std::make_unique<boost::asio::steady_timer>(strand_, *limit);
        what->timer->async_wait(
            [this, kept = owner_->keep(), what](const error_code& error)
            {
                if (error || what->request == 0)
                    return;
                what->is_too_late = true;
                what->too_late = owner_->why_unreachable();
                client_.cancel(boot_time(), what->request);
                perform();
            });
    }
    perform();
}

void gate_engine::cancel(const operation& what)
{
    if (what->request == 0)
        return;
    client_.cancel(boot_time(), what->request);
    perform();
}

void gate_engine::forget(gate_handle& gate)
{
    gate.forgotten = true;
    if (gate.id == 0)
        return;
    for (const gate_request_id id : std::set(gate.waits))
    {
        client_.detach(boot_time(), id);
        finish(operation(operations_.at(id)), boost::asio::error::operation_aborted, 0);
    }
    client_.close_gate(gate.id);
    perform();
}

void gate_engine::finish_all(error_code error, error_code unknown, bool only_reads)
{
    for (const auto& [id, each] : std::map(operations_))
    {
        if (only_reads && !each->only_reads())
            continue;
        const bool is_unsent = client_.drop(boot_time(), id);
        const bool is_change = !each->waits() && each->what != gate_call::read;
        finish(each, is_change && !is_unsent ? unknown : error, 0);
    }
    perform();
}

// --- actions of the client ----------------------------------------------------------------------

void gate_engine::perform(const gate_command& what)
{
    connection_->eval(
        script_named(what.script), request_word{what.keys.encoded(), what.keys.size()},
        request_word{what.arguments.encoded(), what.arguments.size()}, on_reply(what.number));
}

void gate_engine::perform(const gate_ended& what)
{
    const error_code code = error_of(what.result, what.text);
    if (!what.key.empty())
        owner_->report(code, what.key, what.text);
    const auto found = operations_.find(what.request);
    if (found == operations_.end())
        return;
    const operation whose = found->second;
    const bool is_timeout = what.result == client_result::cancelled && whose->is_too_late;
    finish(whose, is_timeout ? whose->too_late : code,
           std::int64_t(what.result == client_result::open));
}

void gate_engine::finish(const operation& what, error_code error, std::int64_t number)
{
    what->gate->waits.erase(what->request);
    operations_.erase(std::exchange(what->request, 0));
    what->timer.reset();
    what->done.complete(error, number);
}

}  // namespace turnstile::redis::detail
