-- SPDX-License-Identifier: Apache-2.0
--
-- Take permits if enough are free.
--
-- KEYS   1 the count, 2 the same, 3 the request's record, 4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms, 3 how many
-- Result 1 (taken), 0 (fewer are free), -1 (no permits were ever set)
--
-- Why so: only what was taken is recorded. A request that has to wait asks again and again by the
-- same number, and is a new question each time until it is granted.
--include asked
--include count
if not count then
    return -1
end
if count < tonumber(ARGV[3]) then
    return 0
end
redis.call('DECRBY', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
--include forget
return 1
