// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/session_engine.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <fmt/chrono.h>
#include <random>
#include <span>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <variant>

#include "redis/session/bond_handle.hpp"
#include "redis/session/inspection.hpp"
#include "redis/transport/diagnosis.hpp"
#include "redis/transport/identity.hpp"

namespace turnstile::redis::detail {

namespace {

/// An unguessable number: with it, another client could forge messages.
std::uint64_t make_nonce()
{
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

/// The speeds of the clocks differ by at most one part in this many.
std::int64_t drift_of(const config& settings)
{
    return static_cast<std::int64_t>(1 / settings.clock_drift);
}

client_options options_of(const config& settings)
{
    client_options result;
    result.nonce = make_nonce();
    result.wake_prefix = wake_prefix(settings.prefix, settings.database);
    result.margin = settings.loss_margin;
    result.renew_fraction = settings.renew_fraction;
    result.grace = settings.grace;
    result.drift = drift_of(settings);
    return result;
}

using script_table = std::array<std::array<const script*, operation_count>, 2>;

/// Finds a script that belongs to no operation.
const script& script_named(std::string_view name)
{
    // A test ensures that the file exists.
    return *std::ranges::find(scripts(), name, &script::name);
}

/// The script of each operation for each kind of object, if there is one.
script_table make_script_table()
{
    script_table result{};
    for (const object_kind kind : {object_kind::mutex, object_kind::pool})
        for (std::size_t i = 0; i < operation_count; ++i)
        {
            const auto found = std::ranges::find(
                scripts(), name_of(static_cast<operation>(i), kind), &script::name);
            if (found != scripts().end())
                result[static_cast<std::size_t>(kind)][i] = &*found;
        }
    return result;
}

const script& script_of(const command& what)
{
    static const script_table table = make_script_table();
    // A test ensures that the file exists.
    return *table[static_cast<std::size_t>(what.kind)][static_cast<std::size_t>(what.op)];
}

/// The leaves of a reply, as text.
std::vector<std::string> leaves_of(reply answer)
{
    std::vector<std::string> result;
    result.reserve(answer.nodes.size());
    for (node& each : answer.nodes)
        if (each.type != node::kind::array)
            result.push_back(std::move(each.text));
    return result;
}

error_code error_of(attempt_failure reason)
{
    switch (reason)
    {
    case attempt_failure::foreign_layout:
        return errc::foreign_layout;
    case attempt_failure::wrong_type:
        return errc::wrong_type;
    case attempt_failure::damaged:
        return errc::bad_state;
    case attempt_failure::fence_regressed:
        return errc::fence_regressed;
    case attempt_failure::busy:
        return {};
    case attempt_failure::lost:
        return turnstile::errc::lost;
    case attempt_failure::unknown:
        return errc::unknown_outcome;
    case attempt_failure::cancelled:
        return boost::asio::error::operation_aborted;
    case attempt_failure::impossible:
        return turnstile::errc::invalid_count;
    case attempt_failure::capacity_mismatch:
        return errc::capacity_mismatch;
    case attempt_failure::refused:
        break;
    }
    return errc::server_error;
}

/// The error code for a server's refusal with this text.
error_code refusal_of(std::string_view text)
{
    return is_missing_right(text) ? errc::missing_permission : errc::server_error;
}

error_code error_of(release_result result)
{
    switch (result)
    {
    case release_result::released:
        return {};
    case release_result::lost:
        return turnstile::errc::lost;
    case release_result::unknown:
        return errc::unknown_outcome;
    case release_result::refused:
        break;
    }
    return errc::server_error;
}

error_code error_of(standing::status said)
{
    switch (said)
    {
    case standing::status::ok:
    case standing::status::exists:
        return {};
    case standing::status::excess:
        return turnstile::errc::over_release;
    case standing::status::mismatch:
        return errc::capacity_mismatch;
    case standing::status::unknown:
        return errc::unknown_outcome;
    case standing::status::foreign:
        return errc::foreign_layout;
    case standing::status::wrong_type:
        return errc::wrong_type;
    case standing::status::damaged:
        return errc::bad_state;
    default:
        return errc::server_error;
    }
}

void tell(const listener& whom, error_code what)
{
    if (whom)
        whom->complete(what);
}

}  // namespace

session_engine::session_engine(boost::asio::any_io_executor strand, config settings)
    : strand_(std::move(strand))
    , settings_(std::move(settings))
    , client_(options_of(settings_))
    , connection_(
          strand_, settings_,
          [prefix = wake_prefix(settings_.prefix, settings_.database), nonce = client_.nonce()](
              std::uint64_t incarnation) { return prefix + wake_name(nonce, incarnation); },
          *this)
    , gates_(strand_, connection_, client_.nonce(),
             wake_prefix(settings_.prefix, settings_.database), drift_of(settings_),
             static_cast<gate_engine::owner&>(*this))
    , timer_(strand_)
    , close_timer_(strand_)
    , announcement_timer_(strand_)
{
}

void session_engine::start()
{
    if (!settings_.notice.empty())
        log(log_level::warning, settings_.notice + ": using " + settings_.server_name());
    connection_.start();
}

// --- operations ---------------------------------------------------------------------------------

void session_engine::lock(const std::shared_ptr<lock_operation>& operation)
{
    if (operation->leaves)
        return sleep(operation);
    if (operation->cancelled)
        return;
    lock_handle& lock = *operation->lock;
    if (is_closed_)
        return finish(operation, errc::session_closed, grant());
    if (lock.forgotten)
        return finish(operation, boost::asio::error::operation_aborted, grant());
    const std::optional<std::chrono::nanoseconds> limit = operation->limit;
    const bool waits = !limit || limit->count() > 0;
    if (obstacle_ && (is_hopeless_ || !waits))
        return finish(operation, obstacle_, grant());
    if (lock.id == 0)
        lock.id = client_.open_lock(lock.keys, lock.options);
    if (lock.durability.replicas > 0 && !replicas_)
        replicas_ = std::make_unique<replica_watch>(strand_, settings_, make_nonce(),
                                                    static_cast<replica_watch::observer&>(*this));

    operation->wants.waits = waits;
    operation->attempt = operation->proposed
                             ? client_.transact(boot_time(), lock.id, *operation->proposed)
                             : client_.begin(boot_time(), lock.id, operation->wants);
    waiting_.emplace(operation->attempt, operation);
    if (waits && limit)
        set_limit(operation, *limit);
    perform();
}

/// Releases a lock, waits on a condition, and reacquires the lock.
void session_engine::sleep(const std::shared_ptr<lock_operation>& operation)
{
    const auto held = std::exchange(operation->leaves, nullptr);
    held_.erase(held->attempt);
    if (is_closed_)
        return finish(operation, errc::session_closed, grant());
    // The lease may have expired before this ran on the strand.
    if (!client_.holds(held->attempt))
        return finish(operation, turnstile::errc::lost, grant());
    operation->attempt = client_.release(
        boot_time(), held->attempt,
        farewell_of(held->lock->id, operation->condition->key, std::move(operation->words)));
    if (operation->attempt == 0)
        finish(operation, turnstile::errc::lost, grant());
    else
        waiting_.emplace(operation->attempt, operation);
    if (operation->attempt != 0 && operation->cancelled)
        cancel(operation);
    else if (const auto limit = operation->limit; operation->attempt != 0 && limit)
        set_limit(operation, *limit);
    perform();
}

/// Ends a wait on a condition without a notification.
void session_engine::wake(const std::shared_ptr<lock_operation>& operation)
{
    if (operation->attempt != 0)
        client_.wake(boot_time(), operation->attempt);
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
                return self->give_up(operation, why ? why : operation->too_late);
            }
            self->wake(operation);
            self->perform();
        });
}

void session_engine::cancel(const std::shared_ptr<lock_operation>& operation)
{
    operation->cancelled = true;
    if (operation->condition)
    {
        operation->aborted = true;
        wake(operation);
        return perform();
    }
    // Takes and transactions in progress cannot be cancelled.
    if (const attempt_id id = operation->attempt; id != 0 && !client_.cancel(boot_time(), id))
        return perform();
    finish(operation, boost::asio::error::operation_aborted, grant());
    perform();
}

/// Ends a wait without a lock, unless it has ended.
void session_engine::give_up(const std::shared_ptr<lock_operation>& operation, error_code error)
{
    if (operation->attempt == 0)
        return;
    // Takes in progress cannot be cancelled.
    if (client_.cancel(boot_time(), operation->attempt))
        finish(operation, error, grant());
    perform();
}

void session_engine::release(const std::shared_ptr<held_lock>& held, const listener& done,
                             const last_words& words)
{
    held_.erase(held->attempt);
    // The lease may have expired before this ran on the strand.
    if (!client_.holds(held->attempt))
        return tell(done, turnstile::errc::lost);
    if (done)
        releasing_.emplace(held->attempt, done);
    client_.leave_outside(held->attempt, held->count().outside);
    client_.release(boot_time(), held->attempt, farewell_of(held->lock->id, {}, words));
    perform();
}

/// Converts the changes of a section to the names that the client uses.
farewell session_engine::farewell_of(lock_id lock, std::string condition, last_words words)
{
    farewell result{std::move(condition), std::move(words.signals), std::move(words.fields)};
    for (const auto& each : words.contributed)
    {
        each->name = client_.bind(lock, each->terms);
        bonds_.emplace(each->name.id, each);
        if (each->is_dropped)
            client_.unbind(boot_time(), each->name.id);
        result.bound.push_back(each->name);
    }
    for (const auto& each : words.withdrawn)
        result.freed.push_back(each->name);
    return result;
}

void session_engine::drop(bond_handle& bond)
{
    bond.is_dropped = true;
    if (bond.name.id == 0)
        return;
    client_.unbind(boot_time(), bond.name.id);
    perform();
}

/// Ends all contributions with the session.
void session_engine::abandon_bonds()
{
    for (const auto& [id, weak] : std::exchange(bonds_, {}))
    {
        if (const auto bond = weak.lock(); bond && bond->end())
            bond->tell_lost();
        client_.unbind(boot_time(), id);
    }
}

void session_engine::shrink(const std::shared_ptr<held_lock>& held, const listener& done)
{
    // The current numbers: the holder may have shrunk the grant again since.
    const held_lock::tally left = held->count();
    // Everything was released meanwhile; the release reports the result.
    if (left.held == 0)
        return tell(done, {});
    const std::uint64_t change =
        client_.shrink(boot_time(), held->attempt, left.held, left.outside);
    if (change == 0)
        return tell(done, turnstile::errc::lost);
    if (done)
        shrinking_[held->attempt].emplace(change, done);
    perform();
}

void session_engine::call(lock_handle& pool, inquiry what, std::int64_t number, const caller& done)
{
    if (is_closed_)
    {
        done->complete(errc::session_closed, 0);
        return;
    }
    if (is_hopeless_)
    {
        done->complete(obstacle_, 0);
        return;
    }
    if (pool.id == 0)
        pool.id = client_.open_lock(pool.keys, pool.options);
    calling_.emplace(client_.call(boot_time(), pool.id, what, number), std::pair(what, done));
    perform();
}

void session_engine::signal(const condition_handle& condition, bool all, const caller& done)
{
    if (is_closed_ || is_hopeless_)
    {
        if (done)
            done->complete(is_closed_ ? make_error_code(errc::session_closed) : obstacle_, 0);
        return;
    }
    lock_handle& lock = *condition.lock;
    if (lock.id == 0)
        lock.id = client_.open_lock(lock.keys, lock.options);
    const call_id id = client_.signal(boot_time(), lock.id, condition.key, all);
    if (done)
        calling_.emplace(id, std::pair(inquiry::signal_one, done));
    perform();
}

void session_engine::forget_condition(const condition_handle& condition)
{
    for (const auto& [id, operation] : waiting_)
        if (operation->condition.get() == &condition)
        {
            operation->aborted = true;
            client_.wake(boot_time(), id);
        }
    perform();
}

void session_engine::forget_lock(lock_handle& lock)
{
    lock.forgotten = true;
    if (lock.id == 0)
        return;
    std::vector<std::shared_ptr<lock_operation>> waiting;
    for (const auto& [id, operation] : waiting_)
        if (operation->lock.get() == &lock)
            waiting.push_back(operation);
    for (const auto& operation : waiting)
        if (operation->condition)
            give_up(operation, boost::asio::error::operation_aborted);
        else
            cancel(operation);
    client_.close_lock(lock.id);
}

void session_engine::start_gate_call(const gate_engine::operation& operation)
{
    if (is_closed_)
        operation->done.complete(errc::session_closed, 0);
    else
        gates_.start(operation, obstacle_, is_hopeless_);
}

void session_engine::cancel_gate_call(const gate_engine::operation& operation)
{
    gates_.cancel(operation);
}

void session_engine::forget_gate(gate_handle& gate)
{
    gates_.forget(gate);
}

void session_engine::run_once(std::string_view name, std::vector<std::string> keys,
                              std::vector<std::string> arguments, script_handler done)
{
    if (is_closed_)
        return done(errc::session_closed, {});
    if (!is_connected_)
    {
        // Runs on the strand when the attempt to connect has ended.
        leave_handler next(
            [this, self = shared_from_this(), name, keys = std::move(keys),
             arguments = std::move(arguments), done = std::move(done)](error_code error) mutable
            {
                if (error)
                    done(error, {});
                else
                    run_once(name, std::move(keys), std::move(arguments), std::move(done));
            },
            strand_);
        return ready(std::make_shared<completion<error_code>>(std::move(next)));
    }
    connection_.eval(
        script_named(name), keys, arguments,
        [this, self = shared_from_this(), name, done = std::move(done)](const reply& answer)
        {
            if (answer.result == reply::status::ok)
                return done({}, leaves_of(answer));
            if (answer.result == reply::status::unknown)
                return done(errc::unknown_outcome, {});
            const bool is_forbidden = is_missing_right(answer.error);
            std::string remedy;
            if (is_forbidden && answer.error.find("channel") != std::string::npos)
                remedy = " (add &" + broken_channel(settings_.prefix, settings_.database) + ')';
            log(log_level::error, std::string(name) + ": " + answer.error + remedy);
            done(is_forbidden ? errc::missing_permission : errc::server_error, {});
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
    connection_.eval(script_named("self_announce"), session_keys(settings_.prefix), words,
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
            if (!error && self->is_connected_ && !self->is_over_)
                self->announce();
        });
}

void session_engine::ready(listener done)
{
    if (is_closed_)
        tell(done, errc::session_closed);
    else if (is_connected_)
        tell(done, {});
    else
        awaiting_ready_.push_back(std::move(done));
}

void session_engine::ping(const listener& done)
{
    if (is_closed_)
        return tell(done, errc::session_closed);
    if (const error_code why = why_unreachable())
        return tell(done, why);
    const std::array<std::string, 1> words{"PING"};
    connection_.command(words,
                        [done](const reply& answer)
                        {
                            tell(done, answer.result == reply::status::ok
                                           ? error_code()
                                           : make_error_code(errc::unreachable));
                        });
}

void session_engine::close(listener done)
{
    if (is_closed_)
        return tell(done, errc::session_closed);
    is_closed_ = true;
    closing_ = std::move(done);
    tell_ready(errc::session_closed);
    finish_all(errc::session_closed);
    abort_calls(errc::unknown_outcome);
    for (const auto& [attempt, weak] : std::exchange(held_, {}))
    {
        const auto held = weak.lock();
        if (held && held->end())
            tell_lost(*held, "the session was closed");
        if (held)
            client_.leave_outside(attempt, held->count().outside);
        if (client_.holds(attempt))
            client_.release(boot_time(), attempt);
    }
    abandon_bonds();
    close_timer_.expires_after(settings_.connect_timeout);
    close_timer_.async_wait(
        [self = shared_from_this()](const error_code& error)
        {
            if (!error)
                self->end_close(errc::unknown_outcome);
        });
    gates_.finish_all(errc::session_closed, errc::unknown_outcome);
    perform();
}

void session_engine::end_close(error_code error)
{
    if (std::exchange(is_over_, true))
        return;
    close_timer_.cancel();
    announcement_timer_.cancel();
    timer_.cancel();
    gates_.stop();
    if (replicas_)
        replicas_->close();
    connection_.close([self = shared_from_this(), error] { tell(self->closing_, error); });
}

void session_engine::abandon()
{
    is_closed_ = true;
    const error_code aborted = boost::asio::error::operation_aborted;
    tell_ready(aborted);
    finish_all(aborted);
    for (const auto& [attempt, weak] : std::exchange(held_, {}))
        if (const auto held = weak.lock(); held && held->end())
            tell_lost(*held, "the session was destroyed");
    abandon_bonds();
    for (const auto& [attempt, done] : std::exchange(releasing_, {}))
        tell(done, aborted);
    while (!shrinking_.empty())
        finish_shrinking(shrinking_.begin()->first, ~std::uint64_t(), aborted);
    abort_calls(aborted);
    gates_.finish_all(aborted, aborted);
    if (!is_over_)
        end_close(aborted);
}

session_metrics session_engine::metrics() const
{
    const std::lock_guard lock(metrics_mutex_);
    return metrics_;
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
    announce();
    client_.connected(boot_time(), incarnation, {server.run_id, server.now, server.started});
    gates_.connected(incarnation);
    tell_ready({});
    perform();
    if (replicas_)
        replicas_->proceed();
}

void session_engine::disconnected(error_code why)
{
    if (std::exchange(is_connected_, false))
        cut_off_ = boot_time();
    else if (!is_closed_)
        obstacle_ = why;
    announcement_timer_.cancel();
    client_.disconnected(boot_time());
    gates_.disconnected();
    tell_ready(why);
    // The client's pending actions come first: a transaction may have been executed.
    perform();
    if (obstacle_)
        fail_hopeless();
}

void session_engine::failed_for_good(error_code why, std::string)
{
    disconnected(why);
}

/// After a failed attempt to connect, fails the operations that do not wait for the server.
void session_engine::fail_hopeless()
{
    // Leases and positions of waiters survive a misconfiguration of the server that is repaired within a
    // lease.
    const bool had_time = !cut_off_ || boot_time() - *cut_off_ >= settings_.lease;
    is_hopeless_ = obstacle_ == error_kind::configuration && had_time;
    std::vector<std::shared_ptr<lock_operation>> ended;
    for (const auto& [id, operation] : waiting_)
        if (is_hopeless_ || !operation->wants.waits)
            ended.push_back(operation);
    for (const auto& operation : ended)
        if (client_.cancel(boot_time(), operation->attempt))
            finish(operation, obstacle_, grant());
    if (is_hopeless_)
        for (const auto& [call, whose] : std::exchange(calling_, {}))
            whose.second->complete(
                client_.abandon_call(call) ? obstacle_ : make_error_code(errc::unknown_outcome), 0);
    gates_.fail_hopeless(obstacle_, is_hopeless_);
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
    client_.received(boot_time(), payload);
    perform();
}

void session_engine::on_reply(std::uint64_t number, reply answer)
{
    switch (answer.result)
    {
    case reply::status::ok:
        if (auto answers = parse_standings(leaves_of(std::move(answer))))
            client_.answered(boot_time(), number, std::move(*answers));
        else
            client_.refused(boot_time(), number, not_understood);
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

void session_engine::gates_answered(const reply& answer)
{
    if (answer.result == reply::status::ok)
        refusal_.clear();
    else if (is_transient(answer.error) && std::exchange(refusal_, answer.error) != answer.error)
        log(log_level::warning,
            "the server refuses a command: " + answer.error + " (trying again)");
}

/// Informs the client, and logs a refusal that leads to a repetition.
void session_engine::refused(std::uint64_t number, const std::string& error)
{
    const std::string keys = client_.refused(boot_time(), number, error);
    if (keys.empty() || std::exchange(refusal_, error) == error)
        return;
    log(log_level::warning,
        "the server refuses a command for " + keys + ": " + explained(error) + " (trying again)");
}

/// A server's error, with the remedy if it is known.
std::string session_engine::explained(const std::string& error) const
{
    if (!is_missing_right(error))
        return error;
    return error + " (" + diagnose(error, "EVALSHA", settings_).text + ")";
}

/// Logs an error that concerns keys or the server, but not the same one twice within a minute: programs often repeat an
/// operation that has failed.
void session_engine::report(error_code code, const std::string& keys, const std::string& text)
{
    constexpr local_time span = std::chrono::minutes(1);
    constexpr std::size_t limit = 1000;
    if (text.empty() && keys.empty())
        return;
    const local_time now = boot_time();
    if (now >= reports_end_ || reports_.size() == limit)
    {
        reports_.clear();
        reports_end_ = now + span;
    }
    const auto [line, is_new] = reports_.insert((keys.empty() ? "" : keys + ": ") +
                                                (text.empty() ? code.message() : explained(text)));
    if (is_new)
        log(log_level::error, *line);
}

// --- results of the replica watch ---------------------------------------------------------------

void session_engine::await_replicas(const std::shared_ptr<lock_operation>& operation)
{
    const durability_options& wanted = operation->lock->durability;
    operation->replica_timer = std::make_unique<boost::asio::steady_timer>(strand_, wanted.timeout);
    operation->replica_timer->async_wait(
        [self = shared_from_this(), operation](const error_code& error)
        {
            if (!error)
                self->give_up(operation, errc::not_replicated);
        });
    replicas_->ask(operation->attempt, wanted.replicas);
}

bool session_engine::stands(attempt_id id, std::string_view run_id) const
{
    return run_id == run_id_ && client_.is_settled(id);
}

void session_engine::acknowledged(attempt_id id)
{
    const auto found = waiting_.find(id);
    if (found == waiting_.end())
        return;
    const std::shared_ptr<lock_operation> operation = found->second;
    finish(operation, operation->outcome, grant(std::move(operation->granted)));
}

void session_engine::untold(attempt_id id, std::string_view why)
{
    log(log_level::error,
        "the server cannot report what its replicas have acknowledged: " + std::string(why));
    if (const auto found = waiting_.find(id); found != waiting_.end())
        give_up(std::shared_ptr(found->second), errc::not_replicated);
}

// --- actions of the client ----------------------------------------------------------------------

void session_engine::perform()
{
    if (std::exchange(is_performing_, true))
        return;
    auto actions = client_.take_actions(std::move(spare_actions_));
    while (!actions.empty())
    {
        for (action& each : actions)
            std::visit([this](auto& what) { perform(what); }, each);
        actions = client_.take_actions(std::move(actions));
    }
    spare_actions_ = std::move(actions);
    is_performing_ = false;
    if (closing_ && client_.attempt_count() == 0 && client_.bond_count() == 0 && gates_.is_idle())
        end_close({});
    else if (!is_over_)
        wake_at(client_.next_tick());
    note_metrics();
}

void session_engine::perform(command& what)
{
    connection_.eval(script_of(what), what.keys, what.arguments,
                     [self = shared_from_this(), number = what.number, op = what.op](reply answer)
                     {
                         // A server that refuses writes still answers reads.
                         if (answer.result == reply::status::ok && op != operation::count)
                             self->refusal_.clear();
                         self->on_reply(number, std::move(answer));
                     });
}

void session_engine::perform(const granted& what)
{
    const auto found = waiting_.find(what.attempt);
    const std::shared_ptr<lock_operation> operation = found->second;
    const std::shared_ptr<held_lock>& base = operation->base;
    if (base && !base->valid())
    {
        client_.release(boot_time(), what.attempt);
        return finish(operation, turnstile::errc::lost, grant());
    }
    auto held = std::make_shared<held_lock>(operation->lock, what, operation->wants.units,
                                            operation->executor, base);
    if (base)
        base->watch(held);
    held_.emplace(what.attempt, held);
    if (operation->aborted && what.woken)
        operation->outcome = boost::asio::error::operation_aborted;
    if (operation->lock->durability.replicas == 0)
        return finish(operation, operation->outcome, grant(std::move(held)));
    operation->granted = std::move(held);
    await_replicas(operation);
}

void session_engine::perform(const extended& what)
{
    if (const auto found = held_.find(what.attempt); found != held_.end())
        if (const auto held = found->second.lock())
            held->extend(what.expires);
    finish_shrinking(what.attempt, what.changes, {});
    // The server may have confirmed the grant for the first time on this connection.
    if (replicas_)
        replicas_->proceed();
}

void session_engine::perform(const failed& what)
{
    const error_code code =
        what.reason == attempt_failure::refused ? refusal_of(what.text) : error_of(what.reason);
    report(code, what.keys, what.text);
    if (const auto found = waiting_.find(what.attempt); found != waiting_.end())
        finish(std::shared_ptr(found->second),
               what.reason == attempt_failure::busy ? found->second->too_late : code, grant());
}

void session_engine::perform(const lost& what)
{
    finish_shrinking(what.attempt, ~std::uint64_t(), turnstile::errc::lost);
    if (const auto found = waiting_.find(what.attempt); found != waiting_.end())
        return finish(std::shared_ptr(found->second), errc::not_replicated, grant());
    const auto found = held_.find(what.attempt);
    if (found == held_.end())
        return;
    const auto held = found->second.lock();
    held_.erase(found);
    if (!held || !held->end())
        return;
    tell_lost(*held, reason_of(what, held->lock->keys[0]));
}

void session_engine::tell_lost(held_lock& held, const std::string& why) const
{
    log(log_level::warning, "the lock '" + held.lock->name + "' was lost: " + why);
    held.tell_lost();
}

/// The reason for a loss, and a hint.
std::string session_engine::reason_of(const lost& what, const std::string& key) const
{
    if (what.reason == loss_reason::expired)
    {
        const auto ago = std::chrono::duration_cast<std::chrono::system_clock::duration>(
            boot_time() - what.expires);
        const auto end =
            std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - ago);
        const std::string trouble = connection_.trouble();
        return fmt::format("its lease expired at {:%FT%TZ} before a renewal was confirmed ({})",
                           fmt::gmtime(end),
                           !trouble.empty()    ? trouble
                           : !refusal_.empty() ? explained(refusal_)
                                               : "the server did not answer in time");
    }
    if (what.reason == loss_reason::broken)
        return "an operator has broken " + key;
    if (what.reason == loss_reason::replaced_meanwhile && is_other_server_)
        return "the server has lost its memory, or another one has taken over, and has granted " +
               key + " to another holder";
    return "the server says that the lease of " + key + " has ended";
}

void session_engine::perform(const released& what)
{
    const error_code code =
        what.result == release_result::refused ? refusal_of(what.text) : error_of(what.result);
    report(code, what.keys, what.text);
    if (const auto found = releasing_.find(what.attempt); found != releasing_.end())
        tell(releasing_.extract(found).mapped(), code);
    finish_shrinking(what.attempt, ~std::uint64_t(), code);
}

void session_engine::perform(const taken& what)
{
    if (const auto found = waiting_.find(what.attempt); found != waiting_.end())
        finish(std::shared_ptr(found->second), {}, grant());
}

void session_engine::perform(const transacted& what)
{
    const auto found = waiting_.find(what.attempt);
    if (found == waiting_.end())
        return;
    const std::shared_ptr<lock_operation> operation = found->second;
    operation->proposed->carried_out = what.carried_out;
    finish(operation, {}, grant());
}

void session_engine::perform(const called& what)
{
    const error_code code =
        what.said == standing::status::cancelled ? refusal_of(what.text) : error_of(what.said);
    report(code, what.keys, what.text);
    const auto found = calling_.find(what.call);
    if (found == calling_.end())
        return;
    const auto [asked, done] = std::move(found->second);
    calling_.erase(found);
    const std::int64_t result =
        asked == inquiry::create ? std::int64_t(what.said == standing::status::ok) : what.available;
    done->complete(code, result);
}

void session_engine::perform(const kept& what)
{
    if (const auto found = bonds_.find(what.bond); found != bonds_.end())
        if (const auto bond = found->second.lock())
            bond->extend(what.expires);
}

void session_engine::perform(const unbound& what)
{
    const auto found = bonds_.find(what.bond);
    if (found == bonds_.end())
        return;
    const auto bond = found->second.lock();
    bonds_.erase(found);
    if (!bond || !bond->end() || !what.lost)
        return;
    log(log_level::warning, "a contribution to '" + bond->lock->name + "' was lost");
    bond->tell_lost();
}

void session_engine::perform(const reported& what)
{
    log(log_level::error, what.text);
}

void session_engine::wake_at(std::optional<local_time> when)
{
    if (!when || *when >= wakes_at_)
        return;
    wakes_at_ = *when;
    timer_.wait_until(*when,
                      [self = shared_from_this()](const error_code& error)
                      {
                          if (error)
                              return;
                          self->wakes_at_ = local_time::max();
                          self->client_.tick(boot_time());
                          self->perform();
                      });
}

// --- endings ------------------------------------------------------------------------------------

void session_engine::finish(const std::shared_ptr<lock_operation>& operation, error_code error,
                            grant result)
{
    const attempt_id id = std::exchange(operation->attempt, 0);
    waiting_.erase(id);
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
        // The outcome of a take or a transaction in progress stays unknown.
        if (client_.cancel(boot_time(), attempt))
            finish(operation, error, grant());
        else
            finish(operation, errc::unknown_outcome, grant());
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
        tell(waiting.extract(waiting.begin()).mapped(), error);
    if (waiting.empty())
        shrinking_.erase(found);
}

void session_engine::abort_calls(error_code error)
{
    for (const auto& [call, whose] : std::exchange(calling_, {}))
        whose.second->complete(error, 0);
}

void session_engine::tell_ready(error_code error)
{
    for (const listener& each : std::exchange(awaiting_ready_, {}))
        tell(each, error);
}

void session_engine::note_metrics()
{
    const client_counters& counted = client_.counters();
    const auto sent = [&](operation op) { return counted.sent[static_cast<std::size_t>(op)]; };
    const std::lock_guard lock(metrics_mutex_);
    metrics_.connected = is_connected_;
    metrics_.acquires = sent(operation::acquire);
    metrics_.releases = sent(operation::release) + sent(operation::leave);
    metrics_.signals = sent(operation::signal);
    metrics_.wakes = sent(operation::wake);
    metrics_.cancels = sent(operation::cancel);
    metrics_.renewals = sent(operation::renew);
    metrics_.fetches = sent(operation::fetch);
    metrics_.transactions = sent(operation::transact);
    metrics_.keeps = sent(operation::keep);
    metrics_.nudges = sent(operation::nudge);
    metrics_.resyncs = sent(operation::resync);
    metrics_.granted_by_answer = counted.granted_by_answer;
    metrics_.granted_by_message = counted.granted_by_message;
    metrics_.handed_over = counted.handed_over;
    metrics_.confirmed = counted.confirmed;
    metrics_.lost = counted.lost;
    metrics_.regressed = counted.regressed;
    metrics_.reentered = counted.reentered;
    metrics_.malformed = counted.malformed;
    metrics_.attempts = client_.attempt_count();
    metrics_.round_trip = counted.round_trip;
    metrics_.lock_wait = counted.lock_wait;
}

void session_engine::log(log_level level, std::string_view text) const
{
    if (settings_.logger)
        settings_.logger(level, text);
}

}  // namespace turnstile::redis::detail
