-- SPDX-License-Identifier: Apache-2.0
--
-- Part of acquire.lua and acquire_clocked.lua: give a tenure the lock if it is free or the tenure's
-- own already.
--
-- KEYS, ARGV, Result: see acquire.lua
--
-- Why so: the layout is Redisson's (a hash, the owner's field counts its holds, the key has a TTL),
-- and a waiter of Redisson sleeps for ever when the TTL is missing, so a lock that cannot be given
-- one is taken back. Asked again by the same tenure, nothing is counted twice: the field stays, the
-- token is the one given before.
local ttl = redis.call('PTTL', KEYS[2])
local free = ttl == -2
if not free and redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
    return ttl < 0 and -1 or -2 - ttl
end
local asked, counter_ttl, floor = not free, ARGV[3], ARGV[4]
--include token
local more = ARGV[5] and ARGV[5] - 1 or 0
--include row
if free then
    redis.call('HSET', KEYS[2], ARGV[1], 1)
end
local limited = redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
if limited ~= 1 then
    if free and redis.pcall('HDEL', KEYS[2], ARGV[1]) ~= 1 then
        redis.call('DEL', KEYS[2])
    end
    return limited
end
return token
