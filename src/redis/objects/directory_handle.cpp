// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/objects/directory_handle.hpp"

#include <algorithm>
#include <mutex>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "redis/protocol/names.hpp"
#include "redis/session/directory_answers.hpp"

namespace turnstile::redis::detail {

namespace {

/// The largest number of times that a call is sent.
constexpr int most_attempts = 5;

}  // namespace

directory_handle::directory_handle(std::shared_ptr<session_core> session, std::string_view name)
    : core(std::move(session))
    , index(object_key(core->settings.prefix, "directory", name))
{
}

std::string directory_handle::key_of(std::string_view name) const
{
    return listed_key(index, name);
}

std::vector<std::string> directory_handle::common_arguments() const
{
    const config& settings = core->settings;
    return {wake_prefix(settings.prefix, settings.database), std::to_string(settings.lease.count()),
            std::to_string(settings.effective_claim_lease().count()),
            std::to_string(settings.idle_time.count()),
            std::to_string(async_semaphore::max_capacity)};
}

void directory_handle::look(session_engine& engine, std::string_view script,
                            std::vector<std::string> keys, std::vector<std::string> arguments,
                            done_handler done)
{
    send(engine, {script, std::move(keys), std::move(arguments), {}, 0},
         [done = std::move(done)](error_code error, const std::vector<std::string>& leaves, int)
         { done(error, leaves); });
}

void directory_handle::change(session_engine& engine, std::string_view script,
                              const std::string& name, const std::vector<std::string>& more,
                              done_handler done)
{
    named_call call;
    names_.begin(call, nonce_, ++calls_);
    std::vector<std::string> arguments = common_arguments();
    arguments.push_back(call.name);
    arguments.push_back(call.before);
    arguments.insert(arguments.end(), more.begin(), more.end());
    send(engine, {script, {key_of(name), index}, std::move(arguments), {}, 0},
         [self = shared_from_this(), call = std::move(call), done = std::move(done)](
             error_code error, const std::vector<std::string>& leaves, int attempts) mutable
         {
             call.repeated = attempts > 1;
             if (error)
                 self->names_.end(call, false);
             else
                 error = end_call(self->names_, call, leaves.at(0));
             done(error, leaves);
         });
}

void directory_handle::read_numbers(session_engine& engine, const std::vector<std::string>& keys,
                                    done_handler done)
{
    look(engine, "pool_states", keys, common_arguments(),
         [self = shared_from_this(), &engine, keys,
          done = std::move(done)](error_code error, const std::vector<std::string>& leaves)
         {
             const auto more = [](const std::string& leaf)
             { return parse_listed_answer(leaf).more; };
             if (!error && std::ranges::any_of(leaves, more))
                 return self->read_numbers(engine, keys, done);
             done(error, leaves);
         });
}

std::shared_ptr<async_semaphore> directory_handle::find(
    std::string_view name, const std::function<async_semaphore*()>& make)
{
    const std::lock_guard lock(common_mutex());
    auto& cached = waited_for_[std::string(name)];
    if (auto found = cached.lock())
        return found;
    std::shared_ptr<async_semaphore> made(
        make(), [self = shared_from_this(), name = std::string(name)](async_semaphore* object)
        { self->forget(name, object); });
    cached = made;
    return made;
}

/// Sends a command until there is an answer, a few times at most.
void directory_handle::send(session_engine& engine, message what, sent_handler done)
{
    ++what.attempts;
    // The engine moves its arguments, and a repetition needs them.
    auto keys = what.keys;
    auto arguments = what.arguments;
    const std::string_view script = what.script;
    // See common_arguments(), which are not those of this script.
    const std::size_t claim = script == "pool_names" ? 0 : 2;
    engine.run_once(
        script, std::move(keys), std::move(arguments), claim,
        [self = shared_from_this(), &engine, what = std::move(what),
         done = std::move(done)](error_code error, const std::vector<std::string>& leaves)
        {
            if (error == errc::unknown_outcome && what.attempts < most_attempts)
            {
                message again = what;
                again.error = error;
                return self->send(engine, std::move(again), done);
            }
            // The server may have executed the message when it was sent before.
            if (error && what.error)
                return done(what.error, leaves, what.attempts);
            if (!error && leaves.empty())
                return done(errc::server_error, leaves, what.attempts);
            done(error, leaves, what.attempts);
        });
}

void directory_handle::forget(const std::string& name, const async_semaphore* object)
{
    delete object;
    const std::lock_guard lock(common_mutex());
    if (const auto found = waited_for_.find(name);
        found != waited_for_.end() && found->second.expired())
        waited_for_.erase(found);
}

}  // namespace turnstile::redis::detail
