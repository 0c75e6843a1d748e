// SPDX-License-Identifier: Apache-2.0
// Which address space the recorded allocator reserved for a request that got no pages in it. No
// record tells of that; but the space stays, and what its home maps next lies in it. It counts from
// then on in the order of segments, by which blocks of one size are told apart.
#pragma once

#include "analyzer/whatif/program/program.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace fragscope::whatif {

class ReservedSpaces {
 public:
  /// Cost: a pass over the driver's calls.
  explicit ReservedSpaces(const Program& program);

  /// Where the space begins that the request at `op`, which found none with room, has reserved;
  /// none if nothing was ever mapped in it.
  [[nodiscard]] std::optional<policy::Address> of_request(const Program& program,
                                                          std::uint32_t op) const;

 private:
  struct Home {
    std::uint16_t pool = 0;
    std::uint32_t stream = 0;
    policy::SizeClass size_class = policy::SizeClass::kSmall;
    friend auto operator<=>(const Home&, const Home&) = default;
  };
  struct Pages {
    std::uint32_t op = 0;
    policy::Address base = 0;
    bool is_first = false;  ///< Of their address space.
  };
  [[nodiscard]] static Home home_of(const Program& program, const Op& op);

  std::map<Home, std::vector<Pages>> pages_;  // in the order of ops
};

}  // namespace fragscope::whatif
