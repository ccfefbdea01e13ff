// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <utility>

#include "redis/objects/directory_handle.hpp"
#include "redis/objects/lock_support.hpp"
#include "redis/protocol/names.hpp"
#include "redis/session/directory_answers.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/inspection.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace detail {

boost::asio::any_io_executor executor_of(const directory_handle& directory) noexcept
{
    return directory.core->fallback();
}

// --- calls --------------------------------------------------------------------------------------

namespace {

using answer_completion = std::shared_ptr<completion<error_code, semaphore_answer>>;

/// An unguessable id of 32 digits.
std::string make_permit_id()
{
    return fmt::format("{:016x}{:016x}", make_nonce(), make_nonce());
}

/// The script of a call that changes a semaphore, and its arguments behind the common ones.
std::pair<std::string_view, std::vector<std::string>> script_of(const directory_call& call)
{
    const std::string number = std::to_string(call.number);
    const std::string lease = std::to_string(call.terms.lease.count());
    switch (call.what)
    {
    case directory_operation::create:
        return {"pool_enlist", {call.name, number}};
    case directory_operation::remove:
        return {"pool_delist", {call.name}};
    case directory_operation::add:
        return {"pool_supply", {number, call.permit}};
    case directory_operation::take:
        return {"pool_draw", {number, call.permit, lease, call.terms.client}};
    case directory_operation::renew:
        return {"pool_permit", {"renew", call.permit, lease}};
    case directory_operation::release:
        return {"pool_permit", {"release", call.permit, ""}};
    default:
        return {"pool_permit", {"free", call.permit, ""}};
    }
}

void send_call(const std::shared_ptr<directory_handle>& directory, session_engine& engine,
               const directory_call& call, const answer_completion& done);

/// Completes a call with the answer of its script.
directory_handle::done_handler finish(const std::shared_ptr<directory_handle>& directory,
                                      session_engine& engine, directory_call call,
                                      answer_completion done)
{
    return [directory, &engine, call = std::move(call),
            done = std::move(done)](error_code error, const std::vector<std::string>& leaves)
    {
        parsed_answer parsed;
        if (!error)
            parsed = parse_listed_answer(leaves.at(0));
        else
            parsed.error = error;
        parsed.answer.state.name = call.name;
        const bool takes = call.what == directory_operation::take;
        if (takes && parsed.answer.status == directory_status::done)
            parsed.answer.permit = call.permit;
        // Numbers of scripts are exact up to 2^53 only.
        if ((takes || call.what == directory_operation::add) && parsed.answer.units != 0)
            parsed.answer.units = call.number;
        const std::vector<std::string> keys{directory->key_of(call.name)};
        if (parsed.more && takes && parsed.answer.status == directory_status::busy)
        {
            // Expired grants may hold the units. The script took nothing.
            directory->read_numbers(engine, keys,
                                    [directory, &engine, call, done](error_code, const auto&)
                                    { send_call(directory, engine, call, done); });
            return;
        }
        if (parsed.more)
            directory->read_numbers(engine, keys, [](error_code, const auto&) {});
        done->complete(parsed.error, std::move(parsed.answer));
    };
}

/// The reason why a call cannot be sent; no error if it can.
error_code broken_rule(const directory_call& call)
{
    if (!is_valid_name(call.name))
        return errc::invalid_name;
    const bool counts =
        call.what == directory_operation::add || call.what == directory_operation::take;
    if (counts && call.number < 1)
        return turnstile::errc::invalid_count;
    if (call.terms.lease.count() < 0 || call.terms.lease > listed_permit_options::longest_lease)
        return turnstile::errc::invalid_duration;
    return {};
}

/// Renews a permit for its former lease. The call has no name: a late copy sets no other lease, so the server need not
/// remember it.
void start_renewing(const std::shared_ptr<directory_handle>& directory, session_engine& engine,
                    const directory_call& call, const answer_completion& done)
{
    std::vector<std::string> arguments = directory->common_arguments();
    arguments.insert(arguments.end(), {"", "", "renew", call.permit, ""});
    directory->look(engine, "pool_permit", {directory->key_of(call.name), directory->index},
                    std::move(arguments), finish(directory, engine, call, done));
}

void send_call(const std::shared_ptr<directory_handle>& directory, session_engine& engine,
               const directory_call& call, const answer_completion& done)
{
    if (call.what == directory_operation::read)
        return directory->read_numbers(engine, {directory->key_of(call.name)},
                                       finish(directory, engine, call, done));
    if (call.what == directory_operation::renew && call.terms.lease.count() == 0)
        return start_renewing(directory, engine, call, done);
    const auto [script, arguments] = script_of(call);
    directory->change(engine, script, call.name, arguments, finish(directory, engine, call, done));
}

using page_completion = std::shared_ptr<completion<error_code, semaphore_page>>;

/// A page whose names are known.
struct page_in_progress
{
    std::vector<listed_semaphore> named;
    semaphore_page page;
    std::size_t read = 0;
};

/// Adds the numbers of the next semaphores of a page. Leaves out semaphores that were removed
/// since, and damaged ones.
void add_numbers(page_in_progress& what, const std::vector<std::string>& leaves)
{
    for (const std::string& leaf : leaves)
    {
        if (what.read == what.named.size())
            return;
        listed_semaphore& named = what.named[what.read++];
        parsed_answer parsed = parse_listed_answer(leaf);
        if (parsed.error || parsed.answer.status != directory_status::done)
            continue;
        parsed.answer.state.name = std::move(named.name);
        what.page.semaphores.push_back(std::move(parsed.answer.state));
    }
}

/// Reads the numbers of the semaphores of a page, fifty at a time, because a script must not
/// keep the server from its other work.
void read_page(const std::shared_ptr<directory_handle>& directory, session_engine& engine,
               const std::shared_ptr<page_in_progress>& what, const page_completion& done)
{
    constexpr std::size_t at_once = 50;
    const std::size_t end = std::min(what->named.size(), what->read + at_once);
    std::vector<std::string> keys;
    for (std::size_t i = what->read; i < end; ++i)
        keys.push_back(directory->key_of(what->named[i].name));
    if (keys.empty())
        return complete(done, {}, std::move(what->page));
    directory->read_numbers(
        engine, keys,
        [directory, &engine, what, done](error_code error, const std::vector<std::string>& leaves)
        {
            if (error)
                return complete(done, error, {});
            add_numbers(*what, leaves);
            read_page(directory, engine, what, done);
        });
}

using detail_completion = std::shared_ptr<completion<error_code, semaphore_detail>>;

void send_detail(const std::shared_ptr<directory_handle>& directory, session_engine& engine,
                 const directory_call& call, const detail_completion& done)
{
    const std::vector<std::string> keys{directory->key_of(call.name)};
    std::vector<std::string> arguments = directory->common_arguments();
    arguments.push_back(session_keys(directory->core->settings.prefix).front());
    arguments.push_back(std::to_string(call.number));
    directory->look(engine, "pool_detail", keys, std::move(arguments),
                    [directory, &engine, call, keys, done](error_code error,
                                                           const std::vector<std::string>& leaves)
                    {
                        semaphore_detail result;
                        if (!error)
                        {
                            parsed_answer parsed = parse_listed_answer(leaves.at(0));
                            // Expired permits would be listed.
                            if (parsed.more)
                                return directory->read_numbers(
                                    engine, keys,
                                    [directory, &engine, call, done](error_code, const auto&)
                                    { send_detail(directory, engine, call, done); });
                            error = parsed.error;
                            result.status = parsed.answer.status;
                            result.state = std::move(parsed.answer.state);
                            parse_entries(leaves, result);
                        }
                        result.state.name = call.name;
                        done->complete(error, std::move(result));
                    });
}

}  // namespace

void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_answer_handler handler)
{
    const bool creates = call.what == directory_operation::create;
    if (const error_code broken = broken_rule(call))
        return complete(std::move(handler), broken, {});
    if (creates && (call.number < 0 || call.number > async_semaphore::max_capacity))
    {
        semaphore_answer answer;
        answer.status = directory_status::excess;
        answer.state.name = call.name;
        return complete(std::move(handler), {}, std::move(answer));
    }
    if (call.what == directory_operation::take && call.terms.lease.count() != 0)
        call.permit = make_permit_id();
    ask(*directory->core, std::move(handler),
        [directory, call = std::move(call)](session_engine& engine, const answer_completion& done)
        { send_call(directory, engine, call, done); });
}

void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_page_handler handler)
{
    ask(*directory->core, std::move(handler),
        [directory, call = std::move(call)](session_engine& engine, const page_completion& done)
        {
            const auto limit = static_cast<std::size_t>(call.number);
            directory->look(engine, "pool_names", {directory->index},
                            {call.name, std::to_string(limit + 1)},
                            [directory, &engine, limit,
                             done](error_code error, const std::vector<std::string>& leaves)
                            {
                                if (error)
                                    return complete(done, error, {});
                                const auto what = std::make_shared<page_in_progress>();
                                what->page = parse_names(leaves, limit);
                                what->named = std::exchange(what->page.semaphores, {});
                                read_page(directory, engine, what, done);
                            });
        });
}

void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_detail_handler handler)
{
    if (const error_code broken = broken_rule(call))
        return complete(std::move(handler), broken, {});
    ask(*directory->core, std::move(handler),
        [directory, call = std::move(call)](session_engine& engine, const detail_completion& done)
        { send_detail(directory, engine, call, done); });
}

namespace {

/// The answer about units that the server keeps, even if it could not report the state of the semaphore.
semaphore_answer kept(const directory_call& call, std::uint64_t token, semaphore_answer answer)
{
    answer.state.name = call.name;
    answer.permit = call.permit;
    answer.units = call.number;
    answer.fencing_token = token;
    return answer;
}

}  // namespace

void start_keep(const std::shared_ptr<directory_handle>& directory, directory_call call,
                permit_grant units, directory_answer_handler handler)
{
    // The step between the commands must not depend on another executor, which may not run.
    const auto executor = handler.executor();
    const auto done =
        std::make_shared<completion<error_code, semaphore_answer>>(std::move(handler));
    if (const error_code broken = broken_rule(call))
        return complete(done, broken, {});
    const std::uint64_t token = units.fencing_token();
    std::string heir;
    if (call.terms.lease.count() != 0)
    {
        call.permit = make_permit_id();
        heir =
            call.permit + ' ' + std::to_string(call.terms.lease.count()) + ' ' + call.terms.client;
    }
    const std::string key = directory->key_of(call.name);
    done_handler next(
        [directory, call = std::move(call), token, done](const error_code& error)
        {
            if (error)
                return complete(done, error, {});
            if (!directory->core->post(
                    *done,
                    [directory, call, token, done](session_engine& engine)
                    {
                        directory->read_numbers(
                            engine, {directory->key_of(call.name)},
                            [call, token, done](error_code failed,
                                                const std::vector<std::string>& leaves)
                            {
                                parsed_answer parsed;
                                if (!failed)
                                    parsed = parse_listed_answer(leaves.at(0));
                                done->complete(failed ? failed : parsed.error,
                                               kept(call, token, std::move(parsed.answer)));
                            });
                    }))
                done->complete(errc::session_closed, kept(call, token, {}));
        },
        executor);
    permit_grant::start_keep(std::move(units), key, std::move(heir), std::move(next));
}

}  // namespace detail

// --- the public class ---------------------------------------------------------------------------

namespace {

std::shared_ptr<detail::directory_handle> make_directory(const session& owner,
                                                         std::string_view name)
{
    detail::check_name(name);
    return std::make_shared<detail::directory_handle>(detail::session_access::core(owner), name);
}

}  // namespace

semaphore_directory::semaphore_directory(session& session, std::string_view name)
    : directory_(make_directory(session, name))
{
}

std::shared_ptr<async_semaphore> semaphore_directory::find(std::string_view name)
{
    detail::check_name(name);
    // With -1 units outside, the scripts do not create a semaphore that is missing.
    const auto make = [&]
    {
        const auto& core = directory_->core;
        detail::lease_options lease = detail::lease_of(core->settings, semaphore_options());
        lease.pool = detail::pool_shape{async_semaphore::max_capacity, -1};
        return new async_semaphore(std::make_shared<detail::lock_handle>(
            core, std::string(name), directory_->key_of(name), lease));
    };
    return directory_->find(name, make);
}

}  // namespace turnstile::redis
