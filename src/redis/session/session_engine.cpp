// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/session_engine.hpp"

#include <boost/asio/error.hpp>
#include <random>
#include <set>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "redis/session/contribution_handle.hpp"

// The operations of a session, and their end. The other files perform the decisions of the client, and process the
// events of the connection.

namespace turnstile::redis::detail {

std::uint64_t make_nonce()
{
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

namespace {

/// The speeds of the clocks differ by at most one part in this many.
std::int64_t drift_of(const config& settings)
{
    return static_cast<std::int64_t>(1 / settings.clock_drift);
}

client_options options_of(const config& settings)
{
    // The drift is a divisor.
    settings.validate();
    client_options result;
    result.nonce = make_nonce();
    result.wake_prefix = wake_prefix(settings.prefix, settings.database);
    result.margin = settings.loss_margin;
    result.renew_fraction = settings.renew_fraction;
    result.grace = settings.grace;
    result.drift = drift_of(settings);
    return result;
}

}  // namespace

session_engine::session_engine(boost::asio::any_io_executor strand, config settings)
    : strand_(std::move(strand))
    , settings_(std::move(settings))
    , client_(options_of(settings_))
    , connection_(connection::make(
          strand_, settings_,
          [prefix = wake_prefix(settings_.prefix, settings_.database), nonce = client_.nonce()](
              std::uint64_t incarnation) { return prefix + wake_name(nonce, incarnation); },
          *this))
    , gates_(strand_, *connection_, client_.nonce(),
             wake_prefix(settings_.prefix, settings_.database), drift_of(settings_), *this)
    , jobs_(*connection_, client_.nonce(), wake_prefix(settings_.prefix, settings_.database),
            drift_of(settings_), *this)
    , timer_(strand_)
    , close_timer_(strand_)
    , announcement_timer_(strand_)
{
}

void session_engine::start()
{
    if (!settings_.notice.empty())
        log(log_level::warning, settings_.notice + ": using " + settings_.server_name());
    connection_->start();
}

// --- operations ---------------------------------------------------------------------------------

void session_engine::start_operation(const std::shared_ptr<lock_operation>& operation)
{
    if (operation->releases)
        return wait_on(operation);
    lock_handle& lock = *operation->lock;
    if (is_closed_)
        return finish(operation, errc::session_closed, grant());
    if (lock.forgotten)
        return finish(operation, boost::asio::error::operation_aborted, grant());
    const time_limit limit = operation->limit;
    const bool waits = !limit || limit->count() > 0;
    if (obstacle_ && (is_hopeless_ || !waits))
        return finish(operation, obstacle_, grant());
    if (lock.id == 0)
        lock.id = client_.open_lock(lock.key, lock.options);
    if (lock.durability.replicas > 0 && !replicas_)
        replicas_ = std::make_unique<replica_watch>(strand_, settings_, make_nonce(),
                                                    static_cast<replica_watch::observer&>(*this));

    operation->wants.waits = waits;
    operation->attempt = operation->proposed
                             ? client_.transact(boot_time(), lock.id, operation->proposed)
                             : client_.begin(boot_time(), lock.id, operation->wants);
    waiting_.emplace(operation->attempt, operation);
    lock.attempts.insert(operation->attempt);
    if (waits && limit)
        set_limit(operation, *limit);
    perform();
}

/// Releases a lock and starts a wait on a condition. The operation completes when it holds the lock again.
void session_engine::wait_on(const std::shared_ptr<lock_operation>& operation)
{
    const auto held = std::exchange(operation->releases, nullptr);
    operation->loss = held->loss;
    held_.erase(held->attempt);
    if (is_closed_)
        return finish(operation, errc::session_closed, grant());
    // The lease may have expired before this ran on the strand.
    if (!client_.holds(held->attempt))
        return finish(operation, turnstile::errc::lost, grant());
    // If the public object has been destroyed, the wait only commits.
    const bool is_aborted = held->lock->forgotten;
    operation->attempt = client_.release(
        boot_time(), held->attempt,
        commit_of(held->lock->id, is_aborted ? std::string() : operation->condition->key,
                  std::move(operation->changes)));
    if (operation->attempt == 0)
    {
        const error_code lost = turnstile::errc::lost;
        finish(operation, is_aborted ? boost::asio::error::operation_aborted : lost, grant());
    }
    else
    {
        waiting_.emplace(operation->attempt, operation);
        operation->lock->attempts.insert(operation->attempt);
        operation->condition->waits.insert(operation->attempt);
        // A wait for a predicate waits several times, and its condition may be destroyed in between.
        if (operation->condition->forgotten)
            cancel(operation);
        else if (const auto limit = operation->limit)
            set_limit(operation, *limit);
    }
    perform();
}

/// Ends a wait on a condition without a notification.
void session_engine::end_wait(const std::shared_ptr<lock_operation>& operation)
{
    if (operation->attempt != 0)
        client_.end_wait(boot_time(), operation->attempt);
}

/// Ends a wait at its time limit.
void session_engine::set_limit(const std::shared_ptr<lock_operation>& operation,
                               std::chrono::nanoseconds span)
{
    operation->timer = std::make_unique<boost::asio::steady_timer>(strand_, span);
    operation->timer->async_wait(
        [self = shared_from_this(), operation](const error_code& error)
        {
            if (error)
                return;
            if (!operation->condition)
            {
                const error_code why = self->why_unreachable();
                return self->withdraw(operation, why ? why : operation->withdrawal_error);
            }
            self->end_wait(operation);
            self->perform();
        });
}

void session_engine::cancel(const std::shared_ptr<lock_operation>& operation)
{
    if (!operation->condition)
        return withdraw(operation, boost::asio::error::operation_aborted);
    operation->aborted = true;
    end_wait(operation);
    perform();
}

/// Cancels an attempt. Its operation completes with @p error at once, unless the server's answer has to decide.
void session_engine::withdraw(const std::shared_ptr<lock_operation>& operation, error_code error)
{
    if (operation->attempt == 0)
        return;
    operation->withdrawal_error = error;
    // A take or a transaction in progress may still succeed.
    if (client_.cancel(boot_time(), operation->attempt))
        finish(operation, error, grant());
    perform();
}

void session_engine::release(const std::shared_ptr<held_lock>& held, const listener& done,
                             section_changes changes, std::string heir)
{
    const local_time now = boot_time();
    client_.tick(now);
    // The lease may have expired before this ran on the strand. The loss also ends the releases of parts.
    if (!client_.holds(held->attempt))
    {
        perform();
        return complete(done, turnstile::errc::lost);
    }
    held_.erase(held->attempt);
    // A thread may have posted this while another one destroyed the session.
    if (has_ended_)
        return complete(done, errc::session_closed);
    if (done)
        releasing_.emplace(held->attempt, done);
    commit_request what = commit_of(held->lock->id, {}, std::move(changes));
    what.outside = held->count().outside;
    what.heir = std::move(heir);
    client_.release(now, held->attempt, std::move(what));
    perform();
}

error_code session_engine::why_refused(bool only_reads) const
{
    if (is_closed_)
        return errc::session_closed;
    return is_hopeless_ || only_reads ? obstacle_ : error_code();
}

/// Converts the changes of a section to a request to the client.
commit_request session_engine::commit_of(lock_id lock, std::string condition,
                                         section_changes changes)
{
    commit_request result{std::move(condition), std::move(changes.notifications),
                          std::move(changes.fields)};
    for (const auto& each : changes.contributed)
    {
        each->name = client_.contribute(lock, each->terms);
        if (each->is_dropped)
            client_.undo_contribution(boot_time(), each->name.id);
        else
            contributions_.emplace(each->name.id, each);
        result.contributed.push_back(each->name);
    }
    for (const auto& each : changes.withdrawn)
        result.withdrawn.push_back(each->name);
    result.has_failed = changes.has_failed;
    return result;
}

void session_engine::drop(contribution_handle& handle)
{
    handle.is_dropped = true;
    if (handle.name.id == 0)
        return;
    client_.undo_contribution(boot_time(), handle.name.id);
    contributions_.erase(handle.name.id);
    perform();
}

/// Ends all contributions with the session.
void session_engine::end_contributions()
{
    for (const auto& [id, weak] : std::exchange(contributions_, {}))
    {
        if (const auto handle = weak.lock(); handle && handle->end())
            handle->report_loss();
        client_.undo_contribution(boot_time(), id);
    }
}

void session_engine::shrink(const std::shared_ptr<held_lock>& held, const listener& done)
{
    if (held->is_lost)
        return complete(done, turnstile::errc::lost);
    // The present numbers, because the holder may have released more units since the call.
    const held_lock::tally left = held->count();
    // All units were released meanwhile. The result of that release, which may begin later, is that of this one.
    if (left.held == 0 && client_.phase_name(held->attempt).empty())
        return complete(done, {});
    if (has_ended_)
        return complete(done, errc::session_closed);
    if (left.held == 0)
    {
        if (done)
            shrinking_[held->attempt].emplace(all_changes, done);
        return;
    }
    const std::uint64_t change =
        client_.shrink(boot_time(), held->attempt, left.held, left.outside);
    if (change == 0)
        return complete(done, turnstile::errc::lost);
    if (done)
        shrinking_[held->attempt].emplace(change, done);
    perform();
}

void session_engine::call(lock_handle& pool, call_kind what, std::int64_t number,
                          const caller& done)
{
    if (const error_code why = why_refused())
        return complete(done, why, 0);
    if (pool.id == 0)
        pool.id = client_.open_lock(pool.key, pool.options);
    calling_.emplace(client_.call(boot_time(), pool.id, what, number), std::pair(what, done));
    perform();
}

void session_engine::notify(const condition_handle& condition, bool all, const caller& done)
{
    if (const error_code why = why_refused())
        return complete(done, why, 0);
    lock_handle& lock = *condition.lock;
    // A condition may outlive its mutex, which then has closed its lock. Other waiters still need the notification.
    lock_id temporary = 0;
    lock_id& opened = lock.forgotten ? temporary : lock.id;
    if (opened == 0)
        opened = client_.open_lock(lock.key, lock.options);
    const call_id id = client_.notify(boot_time(), opened, condition.key, all);
    if (lock.forgotten)
        client_.close_lock(opened);
    if (done)
        calling_.emplace(id, std::pair(call_kind::notify_one, done));
    perform();
}

void session_engine::forget_condition(condition_handle& condition)
{
    condition.forgotten = true;
    for (const attempt_id id : condition.waits)
    {
        waiting_.at(id)->aborted = true;
        client_.end_wait(boot_time(), id);
    }
    perform();
}

void session_engine::forget_lock(lock_handle& lock)
{
    lock.forgotten = true;
    if (lock.id == 0)
        return;
    for (const attempt_id id : std::set(lock.attempts))
    {
        // The end of one operation may end another one.
        if (const auto operation = waiting(id))
            withdraw(operation, boost::asio::error::operation_aborted);
    }
    client_.close_lock(lock.id);
}

void session_engine::ready(listener done)
{
    if (is_closed_)
        complete(done, errc::session_closed);
    else if (is_connected_)
        complete(done, {});
    else
        awaiting_ready_.push_back(std::move(done));
}

void session_engine::close(listener done)
{
    if (is_closed_)
        return complete(done, errc::session_closed);
    is_closed_ = true;
    closing_ = std::move(done);
    complete_ready(errc::session_closed);
    finish_all(errc::session_closed);
    abort_calls(errc::session_closed, errc::unknown_outcome);
    for (const auto& [attempt, weak] : std::exchange(held_, {}))
    {
        const auto held = weak.lock();
        if (held && held->end())
            report_loss(*held, "the session was closed");
        // The critical section has lost the lock, so the notification that led to it passes to the next waiter.
        commit_request failure;
        failure.has_failed = true;
        if (held)
            failure.outside = held->count().outside;
        if (client_.holds(attempt))
            client_.release(boot_time(), attempt, std::move(failure));
    }
    end_contributions();
    close_timer_.expires_after(settings_.connect_timeout);
    close_timer_.async_wait(
        [self = shared_from_this()](const error_code& error)
        {
            if (!error)
                self->end_close(errc::unknown_outcome);
        });
    // Held jobs are released before the first perform(), which ends the session if no operation needs the server.
    jobs_.finish_all(errc::session_closed, errc::unknown_outcome);
    gates_.finish_all(errc::session_closed, errc::unknown_outcome);
    perform();
}

void session_engine::end_close(error_code error)
{
    if (std::exchange(has_ended_, true))
        return;
    close_timer_.cancel();
    announcement_timer_.cancel();
    timer_.cancel();
    for (const auto& [attempt, done] : std::exchange(releasing_, {}))
        complete(done, error);
    while (!shrinking_.empty())
        finish_shrinking(shrinking_.begin()->first, all_changes, error);
    jobs_.stop(error);
    if (replicas_)
        replicas_->close();
    // From now on, the connection reports nothing.
    is_connected_ = false;
    note_metrics();
    connection_->close([done = closing_, error] { complete(done, error); });
}

void session_engine::stop()
{
    is_closed_ = true;
    const error_code aborted = boost::asio::error::operation_aborted;
    complete_ready(aborted);
    finish_all(aborted);
    for (const auto& [attempt, weak] : std::exchange(held_, {}))
        if (const auto held = weak.lock(); held && held->end())
            report_loss(*held, "the session was destroyed");
    end_contributions();
    abort_calls(aborted, aborted);
    gates_.finish_all(aborted, aborted);
    jobs_.finish_all(aborted, aborted);
    end_close(aborted);
}

session_metrics session_engine::metrics() const
{
    const std::lock_guard lock(metrics_mutex_);
    return metrics_;
}

// --- endings ------------------------------------------------------------------------------------

/// The operation that waits with this attempt; null if it has ended.
std::shared_ptr<lock_operation> session_engine::waiting(attempt_id id) const
{
    const auto found = waiting_.find(id);
    return found == waiting_.end() ? nullptr : found->second;
}

void session_engine::finish(const std::shared_ptr<lock_operation>& operation, error_code error,
                            grant result)
{
    const attempt_id id = std::exchange(operation->attempt, 0);
    waiting_.erase(id);
    operation->lock->attempts.erase(id);
    if (operation->condition)
        operation->condition->waits.erase(id);
    if (std::exchange(operation->granted, nullptr))
    {
        // The grant was not delivered, so it has no holder.
        held_.erase(id);
        replicas_->forget(id);
    }
    operation->timer.reset();
    operation->replica_timer.reset();
    operation->done.complete(error, std::move(result));
}

void session_engine::finish_all(error_code error)
{
    for (const auto& [attempt, operation] : std::exchange(waiting_, {}))
    {
        // The outcome of a take, a transaction or a commit in progress stays unknown.
        const bool commits = client_.is_committing(attempt);
        const bool is_known = client_.cancel(boot_time(), attempt) && !commits;
        finish(operation, is_known ? error : make_error_code(errc::unknown_outcome), grant());
    }
}

/// Completes the listeners of changes up to this one.
void session_engine::finish_shrinking(attempt_id attempt, std::uint64_t changes, error_code error)
{
    const auto found = shrinking_.find(attempt);
    if (found == shrinking_.end())
        return;
    auto& waiting = found->second;
    while (!waiting.empty() && waiting.begin()->first <= changes)
        complete(waiting.extract(waiting.begin()).mapped(), error);
    if (waiting.empty())
        shrinking_.erase(found);
}

/// Ends all calls: those that the server certainly does not know with one error, and all others with the other.
void session_engine::abort_calls(error_code unsent, error_code sent)
{
    for (const auto& [call, whose] : std::exchange(calling_, {}))
        whose.second->complete(client_.drop_unsent_call(call) ? unsent : sent, 0);
}

void session_engine::complete_ready(error_code error)
{
    for (const listener& each : std::exchange(awaiting_ready_, {}))
        complete(each, error);
}

void session_engine::log(log_level level, std::string_view text) const
{
    if (settings_.logger)
        settings_.logger(level, text);
}

}  // namespace turnstile::redis::detail
