-- SPDX-License-Identifier: Apache-2.0
--
-- Let a tenure write: if nobody holds the lock, or it writes already.
--
-- KEYS   1 the token counter, 2 the lock
-- ARGV   as acquire_read.lua
-- Result as acquire.lua: > 0 the token, -1 or less: somebody else reads or writes
--
-- Why so: as acquire.lua, with Redisson's fields for a writer. Readers whose time seems to be over
-- count until the lock's own TTL ends, or until the last other reader leaves: some releases of
-- Redisson forget to renew the keys that would tell. A hash without a mode is a mutex and excludes
-- a writer, for which Redisson's own writer does not look.
local lock, writer = KEYS[2], ARGV[2] .. ':write'
local ttl = redis.call('PTTL', lock)
local free, asked = ttl == -2, false
if not free then
    local mode = redis.call('HGET', lock, 'mode')
    if mode == 'write' then
        asked = redis.call('HEXISTS', lock, writer) == 1
    end
    if not asked then
        return ttl < 0 and -1 or -2 - ttl
    end
end
local counter_ttl, floor, more = ARGV[4], ARGV[5], ARGV[6] and ARGV[6] - 1 or 0
--include token
--include row
if free then
    redis.call('HSET', lock, 'mode', 'write', writer, 1)
end
local limited = ttl < tonumber(ARGV[3]) and redis.pcall('PEXPIRE', lock, ARGV[3]) or 1
if limited ~= 1 then
    if free then
        redis.call('HDEL', lock, 'mode', writer)
    end
    return limited
end
return token
