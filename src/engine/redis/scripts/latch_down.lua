-- SPDX-License-Identifier: Apache-2.0
--
-- Count a latch down by one, and let go who waits when it is at zero.
--
-- KEYS   1 the count, 2 the same, 3 the request's record, 4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms
-- Result what is left
--
-- Why so: at zero the key goes, as with Redisson, and a latch that nobody set is at zero and stays
-- so; that is recorded as well, lest an earlier copy that arrives late counts down what was set
-- since. The TTL, if somebody gave it one, is left alone.
--include asked
--include count
--include forget_first
if not count then
    redis.pcall('SET', KEYS[3], '0', 'PX', ARGV[2])
    return 0
end
local left = 0
if count > 1 then
    left = redis.call('DECR', KEYS[1])
else
    redis.call('DEL', KEYS[1])
    redis.pcall('PUBLISH', ARGV[1], '0')
end
redis.call('SET', KEYS[3], left, 'PX', ARGV[2])
return left
