// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/session_engine.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <vector>

#include "redis/session/error_of.hpp"
#include "redis/session/inspection.hpp"
#include "redis/transport/diagnosis.hpp"
#include "redis/transport/identity.hpp"
#include "redis/transport/scripts.hpp"

// The commands of the session itself, and the events that it processes: connections, replies, and acknowledgements of
// replicas.

namespace turnstile::redis::detail {

// --- commands of the session itself --------------------------------------------------------------

void session_engine::run_once(std::string_view name, std::vector<std::string> keys,
                              std::vector<std::string> arguments, std::size_t claim,
                              script_handler done)
{
    if (is_closed_)
        return done(errc::session_closed, {});
    if (!is_connected_)
    {
        // Runs on the strand when the attempt to connect has ended.
        done_handler next(
            [this, self = shared_from_this(), name, keys = std::move(keys),
             arguments = std::move(arguments), claim,
             done = std::move(done)](error_code error) mutable
            {
                if (error)
                    done(error, {});
                else
                    run_once(name, std::move(keys), std::move(arguments), claim, std::move(done));
            },
            strand_);
        return ready(std::make_shared<completion<error_code>>(std::move(next)));
    }
    // Only a connected session knows the times.
    if (claim != 0)
        arguments[claim] += client_.grace_words();
    connection_->eval(
        script_named(name), keys, arguments,
        [this, self = shared_from_this(), name, done = std::move(done)](const reply& answer)
        {
            if (answer.result == reply::status::ok)
                return done({}, answer.texts);
            if (answer.result == reply::status::unknown)
                return done(errc::unknown_outcome, {});
            const error_code code = error_of(refusal_of(answer.error), answer.error);
            std::string remedy;
            if (code == errc::missing_permission &&
                answer.error.find("channel") != std::string::npos)
                remedy = " (add &" + broken_channel(settings_.prefix, settings_.database) + ')';
            log_failure(std::string(name) + ": " + answer.error + remedy);
            done(code, {});
        });
}

/// Stores the session's identity for inspections, and repeats that before it expires.
void session_engine::announce()
{
    // The identity has to outlive the lease of a crashed holder.
    const std::chrono::milliseconds span =
        std::max<std::chrono::milliseconds>(std::chrono::minutes(10), 2 * settings_.lease);
    const std::array<std::string, 3> words{
        nonce_name(client_.nonce()), to_text(identify(settings_)), std::to_string(span.count())};
    connection_->eval(script_named("self_announce"), session_keys(settings_.prefix), words,
                      [self = shared_from_this()](const reply& answer)
                      {
                          if (answer.result == reply::status::error)
                              self->log(log_level::info,
                                        "async_inspect() cannot show the name of this session: " +
                                            answer.error);
                      });
    announcement_timer_.expires_after(span / 2);
    announcement_timer_.async_wait(
        [self = shared_from_this()](const error_code& error)
        {
            if (!error && self->is_connected_ && !self->has_ended_)
                self->announce();
        });
}

void session_engine::ping(const listener& done)
{
    if (is_closed_)
        return complete(done, errc::session_closed);
    if (const error_code why = why_unreachable())
        return complete(done, why);
    const std::array<std::string, 1> words{"PING"};
    connection_->command(words,
                         [done](const reply& answer)
                         {
                             complete(done, answer.result == reply::status::ok
                                                ? error_code()
                                                : make_error_code(errc::unreachable));
                         });
}

// --- events of the connection -------------------------------------------------------------------

void session_engine::connected(std::uint64_t incarnation, const server_info& server)
{
    is_connected_ = true;
    is_hopeless_ = false;
    obstacle_ = {};
    {
        const std::lock_guard lock(metrics_mutex_);
        ++metrics_.connections;
    }
    is_other_server_ = !run_id_.empty() && run_id_ != server.run_id;
    run_id_ = server.run_id;
    // Otherwise, a former master that keeps its connections would prevent acknowledgements for up to a lease.
    if (is_other_server_ && replicas_)
        replicas_->check_role();
    announce();
    client_.connected(boot_time(), incarnation, {server.run_id, server.now, server.started});
    gates_.connected(incarnation);
    jobs_.connected(incarnation, is_other_server_);
    complete_ready({});
    perform();
}

void session_engine::disconnected(error_code why)
{
    if (std::exchange(is_connected_, false))
        disconnected_at_ = boot_time();  // the link is replaced at once, so this is no obstacle yet
    else if (!is_closed_)
        obstacle_ = why;
    announcement_timer_.cancel();
    client_.disconnected(boot_time());
    gates_.disconnected();
    jobs_.disconnected();
    complete_ready(why);
    // The client's pending actions come first: they may end operations, such as transactions.
    perform();
    if (obstacle_)
        fail_after_connect_error();
}

/// Called after a failed attempt to connect. Fails the operations that do not wait; or all of them, if only a change of
/// the configuration can help.
void session_engine::fail_after_connect_error()
{
    // Leases and positions of waiters survive a misconfiguration of the server that is repaired within a
    // lease.
    const bool had_time = !disconnected_at_ || boot_time() - *disconnected_at_ >= settings_.lease;
    is_hopeless_ = obstacle_ == error_kind::configuration && had_time;
    std::vector<std::shared_ptr<lock_operation>> ended;
    for (const auto& [id, operation] : waiting_)
        if (is_hopeless_ || !operation->wants.waits)
            ended.push_back(operation);
    for (const auto& operation : ended)
    {
        withdraw(operation, client_.is_committing(operation->attempt)
                                ? make_error_code(errc::unknown_outcome)
                                : obstacle_);
        // A take in progress waits for an answer, which may never arrive.
        if (is_hopeless_ && operation->attempt != 0)
            finish(operation, errc::unknown_outcome, grant());
    }
    if (is_hopeless_)
        abort_calls(obstacle_, errc::unknown_outcome);
    gates_.finish_all(obstacle_, errc::unknown_outcome, !is_hopeless_);
    if (is_hopeless_)
        jobs_.fail_after_connect_error(obstacle_);
    perform();
}

error_code session_engine::why_unreachable() const
{
    if (is_connected_)
        return {};
    return obstacle_ ? obstacle_ : make_error_code(errc::unreachable);
}

void session_engine::message(std::string_view payload)
{
    if (gate_client::is_for_gates(payload))
        return gates_.received(payload);
    if (job_client::is_for_jobs(payload))
        return jobs_.received(payload);
    client_.received(boot_time(), payload);
    perform();
}

void session_engine::on_reply(std::uint64_t number, const reply& answer)
{
    switch (answer.result)
    {
    case reply::status::ok:
        on_answer(number, answer);
        break;
    case reply::status::error:
        refused(number, answer.error);
        break;
    case reply::status::unknown:
        // The client has already processed the loss of the connection.
        return;
    }
    perform();
}

void session_engine::on_answer(std::uint64_t number, const reply& answer)
{
    // A batch is answered by an array, and any other command by one text.
    if (answer.texts.size() == 1)
    {
        if (auto one = parse_answer(answer.text()))
            return client_.answered(boot_time(), number, std::span(&*one, 1));
    }
    else if (auto all = parse_answers(answer.texts))
        return client_.answered(boot_time(), number, std::move(*all));
    client_.refused(boot_time(), number, not_understood);
}

void session_engine::answered(const reply& answer)
{
    if (answer.result == reply::status::ok)
        end_refusal("");
    else if (is_transient(answer.error))
        note_refusal("", "", answer.error);
}

/// Informs the client, and logs a refusal that leads to a repetition.
void session_engine::refused(std::uint64_t number, const std::string& error)
{
    const std::vector<std::string> about = client_.keys_of_command(number);
    const std::string keys = client_.refused(boot_time(), number, error);
    if (!keys.empty())
        note_refusal(is_transient(error) || about.empty() ? "" : about[0], keys, error);
}

/// Logs a refusal, but not each repetition.
void session_engine::note_refusal(const std::string& key, const std::string& keys,
                                  const std::string& error)
{
    // Nothing ends the refusal of a lock that is not used again.
    constexpr std::size_t limit = 1000;
    if (refusals_.size() == limit)
        refusals_.clear();
    if (std::exchange(refusals_[key], error) != error)
        log_failure("the server refuses a command" + (keys.empty() ? "" : " for " + keys) + ": " +
                        explained(error) + " (trying again)",
                    log_level::warning);
}

void session_engine::end_refusal(const std::string& key)
{
    if (refusals_.erase(key) != 0)
        log_failure("the server executes commands" + (key.empty() ? "" : " for " + key) + " again",
                    log_level::warning);
}

/// Called when the server has executed a command.
void session_engine::end_refusals(std::uint64_t number, operation op)
{
    // A `count` or a `nudge` may only read, which a server allows even if it refuses writes.
    if (refusals_.empty() || op == operation::count || op == operation::nudge)
        return;
    end_refusal("");
    for (const std::string& key : client_.keys_of_command(number))
        end_refusal(key);
}

/// A server's error, with the remedy if it is known.
std::string session_engine::explained(const std::string& error) const
{
    if (!is_missing_right(error))
        return error;
    return error + " (" + connection_->remedy(error) + ")";
}

/// Logs an error that concerns keys or the server.
void session_engine::report(error_code code, const std::string& keys, const std::string& text)
{
    if (!text.empty() || !keys.empty())
        log_failure((keys.empty() ? "" : keys + ": ") +
                    (text.empty() ? code.message() : explained(text)));
}

/// Logs the failure of an operation or a command, but not the same one twice within a minute: programs often repeat an
/// operation that has failed.
void session_engine::log_failure(std::string text, log_level level)
{
    constexpr local_time span = std::chrono::minutes(1);
    constexpr std::size_t limit = 1000;
    const local_time now = boot_time();
    if (now >= reports_end_ || reports_.size() == limit)
    {
        reports_.clear();
        reports_end_ = now + span;
    }
    const auto [line, is_new] = reports_.insert(std::move(text));
    if (is_new)
        log(level, *line);
}

// --- results of the replica watch ---------------------------------------------------------------

/// The error of an operation whose grant waited for replicas, and is not delivered.
error_code session_engine::why_undelivered(const lock_operation& operation)
{
    return operation.base_is_lost() ? make_error_code(turnstile::errc::lost)
                                    : make_error_code(errc::not_replicated);
}

void session_engine::await_replicas(const std::shared_ptr<lock_operation>& operation)
{
    const durability_options& wanted = operation->lock->durability;
    operation->replica_timer = std::make_unique<boost::asio::steady_timer>(strand_, wanted.timeout);
    operation->replica_timer->async_wait(
        [self = shared_from_this(), operation](const error_code& error)
        {
            if (!error)
                self->withdraw(operation, why_undelivered(*operation));
        });
    replicas_->ask(operation->attempt, wanted.replicas);
}

bool session_engine::server_knows(attempt_id id, std::string_view run_id) const
{
    return run_id == run_id_ && client_.server_knows(id);
}

void session_engine::acknowledged(attempt_id id)
{
    const auto operation = waiting(id);
    if (!operation)
        return;
    if (operation->base_is_lost())
        return withdraw(operation, why_undelivered(*operation));
    finish(operation, operation->outcome, grant(std::move(operation->granted)));
}

void session_engine::unacknowledged(attempt_id id, std::string_view why)
{
    log_failure("the server cannot report what its replicas have acknowledged: " +
                std::string(why));
    if (const auto operation = waiting(id))
        withdraw(operation, why_undelivered(*operation));
}

}  // namespace turnstile::redis::detail
