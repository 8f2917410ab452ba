-- SPDX-License-Identifier: Apache-2.0
--
-- Show how often a tenure has acquired the lock, to people who look.
--
-- KEYS   1 the lock
-- ARGV   1 the owner string, 2 the count
-- Result 1 (shown), 0 (the tenure does not hold it)
--
-- Why so: the number is absolute, so a repeated request changes nothing, and no script decides by
-- it. The TTL stays as it is. Without the first line a late copy would make a lock without a TTL.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
