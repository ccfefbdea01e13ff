// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/replica_watch.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/protocol/names.hpp"

namespace turnstile::redis::detail {

namespace {

/// The settings of the second connection. Its lines in the log differ from those of the session's own connection.
config for_acknowledgements(config settings)
{
    if (settings.logger)
        settings.logger = [log = std::move(settings.logger)](log_level level, std::string_view text)
        { log(level, "for acknowledgements of replicas: " + std::string(text)); };
    return settings;
}

}  // namespace

replica_watch::replica_watch(const boost::asio::any_io_executor& strand, const config& settings,
                             std::uint64_t nonce, observer& who)
    : observer_(&who)
    , channel_of_([prefix = wake_prefix(settings.prefix, settings.database), nonce](
                      std::uint64_t incarnation) { return prefix + wake_name(nonce, incarnation); })
    , connection_(connection::make(strand, for_acknowledgements(settings), channel_of_, *this))
    , slice_(
          std::to_string(std::max<std::int64_t>(settings.effective_health_check().count() / 2, 1)))
{
    try
    {
        connection_->start();
    }
    catch (...)
    {
        // Its link would be kept for ever: a connection without an owner does not close it.
        connection_->close({});
        throw;
    }
}

void replica_watch::ask(attempt_id grant, int replicas)
{
    questions_.emplace(grant, question{replicas});
    proceed();
}

void replica_watch::forget(attempt_id grant)
{
    questions_.erase(grant);
}

void replica_watch::proceed()
{
    if (asking_ || run_id_.empty())
        return;
    int fewest = 0;
    for (auto& [grant, each] : questions_)
    {
        each.in_round = observer_->server_knows(grant, run_id_);
        if (each.in_round)
            fewest = fewest == 0 ? each.replicas : std::min(fewest, each.replicas);
    }
    if (fewest == 0)
        return;
    asking_ = true;
    const std::array<std::string, 3> write{"PUBLISH", channel_, ""};
    connection_->command(write, [this, alive = observer_->keep()](const reply& answer)
                         { refusal_ = answer.error; });
    const std::array<std::string, 3> wait{"WAIT", std::to_string(fewest), slice_};
    connection_->command(wait, [this, alive = observer_->keep()](const reply& answer)
                         { answered(answer); });
}

void replica_watch::answered(const reply& answer)
{
    asking_ = false;
    if (answer.result == reply::status::unknown)
        return;
    const std::string why = answer.error.empty() ? refusal_ : answer.error;
    const std::int64_t count = number_in(answer.text());
    std::vector<attempt_id> ended;
    for (const auto& [grant, each] : questions_)
        if (each.in_round && (!why.empty() || each.replicas <= count))
            ended.push_back(grant);
    for (const attempt_id grant : ended)
        questions_.erase(grant);
    for (const attempt_id grant : ended)
        if (why.empty())
            observer_->acknowledged(grant);
        else
            observer_->unacknowledged(grant, why);
    proceed();
}

void replica_watch::close()
{
    connection_->close({});
}

void replica_watch::connected(std::uint64_t incarnation, const server_info& server)
{
    run_id_ = server.run_id;
    channel_ = channel_of_(incarnation);
    proceed();
}

void replica_watch::disconnected(error_code)
{
    run_id_.clear();
}

void replica_watch::message(std::string_view) {}

}  // namespace turnstile::redis::detail
