// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_NAME_OF_MEMBER_HPP
#define TURNSTILE_DETAIL_NAME_OF_MEMBER_HPP

#include <boost/describe/members.hpp>
#include <boost/describe/modifiers.hpp>
#include <boost/mp11/algorithm.hpp>
#include <string_view>
#include <type_traits>

namespace turnstile::detail {

/// The name of a member; empty if Boost.Describe does not know the member.
template <class T, class M>
[[nodiscard]] std::string_view name_of_member(M T::* member) noexcept
{
    std::string_view result;
    if constexpr (boost::describe::has_describe_members<T>::value)
    {
        using members = boost::describe::describe_members<T, boost::describe::mod_any_access |
                                                                 boost::describe::mod_inherited |
                                                                 boost::describe::mod_hidden>;
        const auto compare = [&]<class Member>(Member)
        {
            if constexpr (std::is_convertible_v<decltype(Member::pointer), M T::*>)
                if (member == Member::pointer)
                    result = Member::name;
        };
        boost::mp11::mp_for_each<members>(compare);
    }
    return result;
}

}  // namespace turnstile::detail

#endif
