-- SPDX-License-Identifier: Apache-2.0
--
-- Take permits with ids and a lease, if enough are free.
--
-- KEYS   1 the count, 2 the leases, 3 the record that this request is void, 4 a record that nobody
--        needs
-- ARGV   1 the channel, 2 how long records are kept in ms, 3 the lease in ms, 4... the ids
-- Result 1    taken
--        0    fewer are free, nobody knows for how long
--        -1   no permits were ever set
--        < -1 fewer are free; the first lease ends in -2 - result ms
--
-- Why so: the ids are new with each request, so those that are out already were taken by a copy of
-- this one, and are not taken twice. No lease is ever shortened. Scores are whole milliseconds,
-- which is all that Redisson can read; its permits without a lease have 922337203685477.
if redis.call('EXISTS', KEYS[3]) == 1 then
    return 0
end
--include count
--include reclaim
if not count then
    return -1
end
local missing = 0
for i = 4, #ARGV do
    if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then
        missing = missing + 1
    end
end
if count < missing then
    local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    local score = tonumber(first[2] or '')
    return score and score < 922337203685477 and -2 - (score - now) or 0
end
if missing > 0 then
    redis.call('DECRBY', KEYS[1], missing)
end
local till = now + tonumber(ARGV[3])
for i = 4, #ARGV do
    local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if not score or tonumber(score) < till then
        redis.call('ZADD', KEYS[2], string.format('%.0f', till), ARGV[i])
    end
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
end
--include forget
return 1
