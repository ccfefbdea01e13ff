// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_SITE_HPP
#define TURNSTILE_TEST_CHAOS_SITE_HPP

#include <algorithm>
#include <chaos/client.hpp>
#include <chaos/gate_book.hpp>
#include <chaos/gate_user.hpp>
#include <chaos/ledger.hpp>
#include <chaos/lock_user.hpp>
#include <chaos/mortals.hpp>
#include <chaos/oracle.hpp>
#include <chaos/server.hpp>
#include <chaos/store_user.hpp>
#include <chaos/tally.hpp>
#include <chaos/unit_user.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/// The numbers of objects at each server.
struct amounts
{
    int locks = 8;
    int stores = 1;
    int clients = 3;
    int workers = 4;
};

/// A server, its objects, and its clients.
class site
{
public:
    site(std::string name, bool may_forget, const amounts& how_much, course& run, tally& counts,
         unsigned seed)
        : server(may_forget)
        , name_(std::move(name))
        , run_(run)
        , counts_(counts)
        , seed_(seed)
        , gates_(name_, static_cast<std::size_t>(how_much.clients), !may_forget, counts)
        , units_(name_, !may_forget, counts)
    {
        for (int i = 0; i != how_much.locks; ++i)
            oracles_.push_back(std::make_unique<oracle>(
                fmt::format("{}, lock {}", name_, i),
                capacity_of(kind_of(static_cast<std::size_t>(i))), counts, server.kept));
        // The stores need room for one item for each client that may wait.
        for (int i = 0; i != how_much.stores; ++i)
            books_.push_back(std::make_unique<ledger>(fmt::format("{}, store {}", name_, i),
                                                      std::max(4, how_much.clients), !may_forget,
                                                      counts));
        for (int i = 0; i != how_much.clients; ++i)
            add_client(static_cast<std::uint32_t>(i), how_much);
        stores_.front()->employ_last_bringer(how_much.clients);
        mortals_ = std::make_unique<mortals>(server, name_ + "/room", counts, seed);
    }
    site(const site&) = delete;
    site& operator=(const site&) = delete;

    [[nodiscard]] const std::vector<std::unique_ptr<client>>& clients() const { return clients_; }

    void run() const
    {
        for (const auto& each : clients_)
            each->run();
    }

    /// Ends the course.
    void stop()
    {
        gates_.stop_latches();
        mortals_->end();
    }

    [[nodiscard]] bool has_ended() const
    {
        return mortals_->has_ended() &&
               std::ranges::all_of(clients_,
                                   [](const auto& each)
                                   {
                                       return std::ranges::all_of(
                                           each->workers(),
                                           [](const auto& who) { return who->has_ended.load(); });
                                   });
    }

    /// Checks what is left when all workers have ended.
    void inspect()
    {
        for (const auto& each : clients_)
            each->join();
        client inspector(name_ + ", inspector", server.server.port(), counts_, seed_);
        store_user stores(inspector, run_, books_);
        stores.employ_inspector();
        unit_user units(inspector, run_, units_);
        units.employ_inspector();
        lock_user locks(inspector, run_, oracles_);
        mortals_->inspect(inspector);
        inspector.run();
        while (inspector.is_busy())
            counts_.nap(std::chrono::milliseconds(5));
        inspector.join();
    }

    protected_server server;

private:
    void add_client(std::uint32_t number, const amounts& how_much)
    {
        clients_.push_back(std::make_unique<client>(fmt::format("{}, client {}", name_, number),
                                                    server.server.port(), counts_, seed_ + number));
        client& who = *clients_.back();
        // Some clients hand mutexes over among their own workers, and others do not.
        locks_.push_back(
            std::make_unique<lock_user>(who, run_, oracles_, how_much.workers, 4 * number));
        stores_.push_back(std::make_unique<store_user>(who, run_, books_));
        stores_.back()->employ();
        at_gates_.push_back(std::make_unique<gate_user>(who, run_, gates_, number));
        of_units_.push_back(std::make_unique<unit_user>(who, run_, units_));
        of_units_.back()->employ();
    }

    const std::string name_;
    course& run_;
    tally& counts_;
    const unsigned seed_;
    std::vector<std::unique_ptr<oracle>> oracles_;
    std::vector<std::unique_ptr<ledger>> books_;
    gate_book gates_;
    unit_book units_;
    std::vector<std::unique_ptr<client>> clients_;
    std::vector<std::unique_ptr<lock_user>> locks_;
    std::vector<std::unique_ptr<store_user>> stores_;
    std::vector<std::unique_ptr<gate_user>> at_gates_;
    std::vector<std::unique_ptr<unit_user>> of_units_;
    std::unique_ptr<mortals> mortals_;
};

}  // namespace turnstile::test::chaos

#endif
