-- SPDX-License-Identifier: Apache-2.0
--
-- Give permits back, or change how many there are, and wake who waits.
--
-- KEYS   1 the count, 2 the leases of permits (1 again: they have none), 3 the request's record,
--        4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms, 3 how many more, or fewer
-- Result 1
--
-- Why so: the message is the new count, as a waiter of Redisson lets in as many as it says; one
-- that is not positive would make it stumble. INCRBY leaves the TTL alone. Java counts in 32 bits.
--include asked
--include count
local sum = (count or 0) + tonumber(ARGV[3])
if sum > 2147483647 or sum < -2147483648 then
    return redis.error_reply('PAWLRANGE the count would be ' .. string.format('%.0f', sum))
end
--include forget_first
--include reclaim
count = redis.call('INCRBY', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
if count > 0 and tonumber(ARGV[3]) > 0 then
    redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', count))
end
return 1
