-- SPDX-License-Identifier: Apache-2.0
--
-- Take all permits that are free.
--
-- KEYS   1 the count, 2 the leases of permits (1 again: they have none), 3 the request's record,
--        4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms
-- Result how many were taken
--
-- Why so: a count below zero says how many permits are to vanish as they come back, and stays.
-- DECRBY leaves the TTL alone. That nothing was free is recorded, too: an earlier copy that arrives
-- late must not take what is free by then.
--include asked
--include count
--include reclaim
--include forget
if not count or count <= 0 then
    redis.pcall('SET', KEYS[3], '0', 'PX', ARGV[2])
    return 0
end
local taken = string.format('%.0f', count)
redis.call('DECRBY', KEYS[1], taken)
redis.call('SET', KEYS[3], taken, 'PX', ARGV[2])
return count
