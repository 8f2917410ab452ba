-- SPDX-License-Identifier: Apache-2.0
--
-- How many permits are free, or what a latch still waits for?
--
-- KEYS   1 the count, 2 the leases of permits (1 again: there are none)
-- ARGV   1 the channel
-- Result the count; 0 if none was set
--include count
--include reclaim
return count or 0
